package main

import (
	"net/url"
	"path"
	"strings"
)

// checkLinks follows links inside the project, anchors included. Others are not fetched: a check that
// needs the network fails for reasons of its own.
func checkLinks(p project, doc document) []problem {
	var problems []problem
	for _, link := range doc.links {
		target, err := url.Parse(link.text)
		switch {
		case err != nil:
			problems = append(problems, problemf(doc.path, link.line, "link %q is not a URL", link.text))
		case target.Scheme != "" || target.Host != "":
		default:
			problems = append(problems, checkLink(p, doc, link.line, target)...)
		}
	}
	return problems
}

func checkLink(p project, doc document, line int, target *url.URL) []problem {
	file := doc.path
	if target.Path != "" {
		file = path.Join(path.Dir(doc.path), target.Path)
		if strings.HasPrefix(target.Path, "/") || !p.exists(file) {
			return []problem{problemf(doc.path, line, "link to %s: there is no such file", target.Path)}
		}
	}
	if target.Fragment == "" {
		return nil
	}
	other, ok := p.documents[file]
	if !ok || !other.anchors[target.Fragment] {
		return []problem{problemf(doc.path, line, "link to #%s: %s has no such heading", target.Fragment, file)}
	}
	return nil
}
