package main

import (
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// table is a Markdown table.
type table struct {
	line   int
	header []string
	rows   []tableRow
}

// tableRow has each cell's inline code.
type tableRow struct {
	line  int
	codes [][]string
}

// readTable takes a table apart.
func readTable(node *extast.Table, content []byte) table {
	var t table
	for row := node.FirstChild(); row != nil; row = row.NextSibling() {
		line := lineOf(row, content)
		if row.Kind() == extast.KindTableHeader {
			t.line = line
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				t.header = append(t.header, plainText(cell, content))
			}
			continue
		}
		r := tableRow{line: line}
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			r.codes = append(r.codes, codeIn(cell, content))
		}
		t.rows = append(t.rows, r)
	}
	return t
}

// codeIn gives the inline code below a node, in order.
func codeIn(node ast.Node, content []byte) []string {
	var codes []string
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if span, ok := child.(*ast.CodeSpan); ok {
			codes = append(codes, plainText(span, content))
			continue
		}
		codes = append(codes, codeIn(child, content)...)
	}
	return codes
}

// firstColumn gives the inline code in the first column of the tables whose first heading is the given
// one.
func (d document) firstColumn(heading string) []fragment {
	var found []fragment
	for _, t := range d.tables {
		if t.header[0] != heading {
			continue
		}
		for _, row := range t.rows {
			for _, code := range row.codes[0] {
				found = append(found, fragment{row.line, code})
			}
		}
	}
	return found
}
