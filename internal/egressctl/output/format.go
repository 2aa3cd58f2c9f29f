package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// Format is a way to print.
type Format string

// The formats. Wide is a table with more columns.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
)

// Formats in the order in which help lists them.
var Formats = []Format{FormatTable, FormatWide, FormatJSON, FormatYAML}

// String, Set and Type make a Format a flag's value (pflag.Value).
func (f *Format) String() string { return string(*f) }

// Set takes one of Formats.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats, Format(s)) {
		return errors.New("choose table, wide, json or yaml")
	}
	*f = Format(s)
	return nil
}

// Type is what help calls the value.
func (f *Format) Type() string { return "FORMAT" }

// Structured says that a script reads the output.
func (f *Format) Structured() bool { return *f == FormatJSON || *f == FormatYAML }

// Structure prints v as JSON or YAML, in v's JSON field names.
func Structure(w io.Writer, f Format, v any) error {
	var data []byte
	var err error
	if f == FormatYAML {
		data, err = yaml.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
		data = append(data, '\n')
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// Table prints rows in columns under header; a cell that is empty shows as "-".
func Table(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Clean(cell)
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		if _, err := fmt.Fprintln(tw, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// Fields prints names and values one under the other, and leaves out those without a value.
func Fields(w io.Writer, fields [][2]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(tw, "%s:\t%s\n", f[0], Clean(f[1])); err != nil {
			return err
		}
	}
	return tw.Flush()
}
