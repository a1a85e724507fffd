//! JSON made pretty as Go's `json.MarshalIndent` with four spaces does, piece by piece.

/// Indents compact JSON. Documents follow each other; each begins anew.
#[derive(Debug, Default)]
pub struct Indent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Just behind `{` or `[`: whether it is empty is not known yet.
    opened: bool,
}

impl Indent {
    /// Adds a piece of compact JSON to `out`, indented.
    pub fn push(&mut self, compact: &[u8], out: &mut Vec<u8>) {
        for byte in compact {
            if self.in_string {
                out.push(*byte);
                self.in_string = self.escaped || *byte != b'"';
                self.escaped = !self.escaped && *byte == b'\\';
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            if self.opened && !closes {
                self.line(out);
            }
            match byte {
                b'{' | b'[' => {
                    out.push(*byte);
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !self.opened {
                        self.line(out);
                    }
                    out.push(*byte);
                }
                b',' => {
                    out.push(b',');
                    self.line(out);
                }
                b':' => out.extend_from_slice(b": "),
                _ => {
                    self.in_string = *byte == b'"';
                    out.push(*byte);
                }
            }
            self.opened = matches!(byte, b'{' | b'[');
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 4 * self.depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_go_does_it() {
        let compact = br#"{"a":[],"b":{},"c":[1,{"d":"x,\"{y"}],"e":null}"#;
        let expected = "{\n    \"a\": [],\n    \"b\": {},\n    \
                        \"c\": [\n        1,\n        {\n            \
                        \"d\": \"x,\\\"{y\"\n        }\n    ],\n    \"e\": null\n}";
        let mut whole = Vec::new();
        Indent::default().push(compact, &mut whole);
        assert_eq!(String::from_utf8(whole.clone()).unwrap(), expected);

        let (mut pieces, mut indent) = (Vec::new(), Indent::default());
        for byte in compact {
            indent.push(&[*byte], &mut pieces);
        }
        assert_eq!(pieces, whole);
    }
}
