package main

// checkCitations looks the rules up that a document cites.
func checkCitations(p project, doc document) []problem {
	var problems []problem
	for i, line := range doc.lines {
		for _, id := range citation.FindAllString(line, -1) {
			if !p.contract.has(id[1:]) {
				problems = append(problems, problemf(doc.path, i+1, "the contract has no rule %s", id))
			}
		}
	}
	return problems
}

// checkGoCitations looks the rules up that comments in Go files cite.
func checkGoCitations(p project) []problem {
	var problems []problem
	for _, comment := range p.source.comments {
		for _, id := range citation.FindAllString(comment.text, -1) {
			if !p.contract.has(id[1:]) {
				problems = append(problems, problemf(comment.file, comment.line, "the contract has no rule %s", id))
			}
		}
	}
	return problems
}
