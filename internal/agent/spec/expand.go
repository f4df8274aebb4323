package spec

import "strings"

// Expand replaces $(NAME) by its value where lookup knows the name and leaves it
// as it stands where it does not; $$ is an escaped dollar sign.
func Expand(text string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		dollar := strings.IndexByte(text, '$')
		if dollar < 0 || dollar == len(text)-1 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:dollar])
		text = text[dollar+1:]
		switch text[0] {
		case '$':
			out.WriteByte('$')
			text = text[1:]
		case '(':
			text = expandReference(&out, text, lookup)
		default:
			out.WriteByte('$')
		}
	}
}

// expandReference writes what the reference at the head of text ("(NAME)…")
// stands for and returns the rest. An unclosed one is plain text.
func expandReference(out *strings.Builder, text string, lookup func(string) (string, bool)) string {
	end := strings.IndexByte(text, ')')
	if end < 0 {
		out.WriteString("$(")
		return text[1:]
	}
	if value, known := lookup(text[1:end]); known {
		out.WriteString(value)
	} else {
		out.WriteByte('$')
		out.WriteString(text[:end+1])
	}
	return text[end+1:]
}
