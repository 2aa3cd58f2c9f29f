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

// tableRow has each cell's text and the inline code in it.
type tableRow struct {
	line  int
	texts []string
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
			r.texts = append(r.texts, plainText(cell, content))
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

// rowsUnder gives the rows of the tables whose first heading is the given one.
func (d document) rowsUnder(heading string) []tableRow {
	var rows []tableRow
	for _, t := range d.tables {
		if t.header[0] == heading {
			rows = append(rows, t.rows...)
		}
	}
	return rows
}
