package main

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// document is a Markdown file, taken apart into what the checks look at.
type document struct {
	path    string
	lines   []string // as written, without line ends
	anchors map[string]bool
	links   []fragment // destinations
	spans   []fragment // inline code
	blocks  []block    // code, fenced or indented
	tables  []table
}

// fragment is a piece of a document with the number of its line.
type fragment struct {
	line int
	text string
}

// block is a block of code.
type block struct {
	line     int    // of its first line of code
	language string // or indented
	code     string
}

// parseDocument reads Markdown as GitHub does.
func parseDocument(name string, content []byte) document {
	doc := document{path: name, lines: strings.Split(string(content), "\n"), anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(content))
	slugs := slugger{}
	// The walk cannot fail: no visitor returns an error.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			add(&doc, node, content, slugs)
		}
		return ast.WalkContinue, nil
	})
	return doc
}

// add notes what a node is to the checks.
func add(d *document, node ast.Node, content []byte, slugs slugger) {
	switch n := node.(type) {
	case *ast.Heading:
		d.anchors[slugs.slug(plainText(n, content))] = true
	case *ast.Link:
		d.links = append(d.links, fragment{lineOf(n, content), string(n.Destination)})
	case *ast.Image:
		d.links = append(d.links, fragment{lineOf(n, content), string(n.Destination)})
	case *extast.Table:
		d.tables = append(d.tables, readTable(n, content))
	case *ast.CodeSpan:
		d.spans = append(d.spans, fragment{lineOf(n, content), plainText(n, content)})
	case *ast.FencedCodeBlock:
		d.blocks = append(d.blocks, codeBlock(n, string(n.Language(content)), content))
	case *ast.CodeBlock:
		d.blocks = append(d.blocks, codeBlock(n, indented, content))
	}
}

// indented is the language of a code block without fences.
const indented = "indented"

func codeBlock(node ast.Node, language string, content []byte) block {
	b := block{language: language, code: string(node.Lines().Value(content))}
	if node.Lines().Len() > 0 {
		b.line = lineAt(node.Lines().At(0).Start, content)
	}
	return b
}

// plainText is what a reader sees of a node: its text without markup.
func plainText(node ast.Node, content []byte) string {
	var out strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if t, ok := child.(*ast.Text); ok {
			out.Write(t.Segment.Value(content))
			if t.SoftLineBreak() {
				out.WriteByte(' ')
			}
			continue
		}
		out.WriteString(plainText(child, content))
	}
	return out.String()
}

// lineOf is the line of an inline node: that of its first text, or else of the block that it stands in.
func lineOf(node ast.Node, content []byte) int {
	for child := node.FirstChild(); child != nil; child = child.FirstChild() {
		if t, ok := child.(*ast.Text); ok {
			return lineAt(t.Segment.Start, content)
		}
	}
	for parent := node.Parent(); parent != nil; parent = parent.Parent() {
		if parent.Type() == ast.TypeBlock && parent.Lines().Len() > 0 {
			return lineAt(parent.Lines().At(0).Start, content)
		}
	}
	return 1
}

func lineAt(offset int, content []byte) int { return 1 + bytes.Count(content[:offset], []byte("\n")) }
