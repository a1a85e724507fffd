//! Go's regular expressions in terms of the `regex` crate.
//!
//! Both know the same constructs but for details: in Go `\d`, `\w`, `\s` and `\b` are ASCII,
//! `[` and `&&` mean nothing within a class, a brace that counts nothing is itself, and there are
//! `\Q...\E` and octal escapes. What Go refuses the parser of the query has refused.

use std::fmt::Write;
use std::sync::Arc;

use ::regex::bytes::{Regex, RegexBuilder};

use crate::refusal::QueryError;

/// The largest compiled expression, bytes.
const SIZE_MAX: usize = 10 << 20;

/// Compiles an expression in Go's syntax, to match bytes.
///
/// # Errors
/// When it is none, or too large.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, QueryError> {
    let translated = translate(pattern);
    match RegexBuilder::new(&translated).size_limit(SIZE_MAX).build() {
        Ok(regex) => Ok(Arc::new(regex)),
        Err(error) => {
            let why = match unknown_class(pattern) {
                Some(class) => format!("invalid character class range: `{class}`"),
                None if matches!(error, ::regex::Error::CompiledTooBig(_)) => {
                    format!("expression too large: `{pattern}`")
                }
                None => format!("invalid expression: `{pattern}`"),
            };
            Err(QueryError(format!("error parsing regexp: {why}")))
        }
    }
}

/// The first Unicode class of a pattern that has no meaning.
fn unknown_class(pattern: &str) -> Option<&str> {
    let starts = pattern.match_indices('\\').filter(|(at, _)| {
        pattern.get(at + 1..).is_some_and(|rest| rest.starts_with("p{") || rest.starts_with("P{"))
    });
    let mut classes = starts.filter_map(|(at, _)| {
        let rest = pattern.get(at..)?;
        rest.get(..=rest.find('}')?)
    });
    classes.find(|class| Regex::new(&translate(class)).is_err())
}

/// The expression as the `regex` crate reads it.
fn translate(pattern: &str) -> String {
    let mut reader = Reader { rest: pattern, out: String::with_capacity(pattern.len() + 16) };
    while let Some(next) = reader.next() {
        reader.element(next);
    }
    reader.out
}

struct Reader<'a> {
    rest: &'a str,
    out: String,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn literal(&mut self, code: u32) {
        // A code that is not a character, as half of a pair, matches nothing.
        if char::from_u32(code).is_some() {
            let _ = write!(self.out, "\\x{{{code:X}}}");
        } else {
            self.out.push_str("[^\\x{0}-\\x{10FFFF}]");
        }
    }

    fn element(&mut self, next: char) {
        match next {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.group(),
            '{' if self.counts() => {}
            '{' => self.literal('{'.into()),
            '}' | ']' => self.literal(next.into()),
            _ => self.out.push(next),
        }
    }

    /// Whether what stands behind `{` is a count, which is then taken over.
    fn counts(&mut self) -> bool {
        let Some((counts, rest)) = self.rest.split_once('}') else { return false };
        let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let is_count = !least.is_empty() && digits(least) && digits(most);
        if is_count {
            let _ = write!(self.out, "{{{counts}}}");
            self.rest = rest;
        }
        is_count
    }

    fn group(&mut self) {
        self.out.push('(');
        if self.skip("?P<") {
            // The name is of no use, and may be one that only Go takes.
            let end = self.rest.find('>').map_or(self.rest.len(), |at| at + 1);
            self.rest = self.rest.get(end..).unwrap_or_default();
        } else if self.skip("?)") {
            self.out.push(')');
        } else if self.skip("?") {
            self.out.push('?');
            while let Some(next) = self.next() {
                self.out.push(next);
                if matches!(next, ':' | ')') {
                    break;
                }
            }
        }
    }

    fn escape(&mut self) {
        match self.rest.chars().next() {
            Some('b' | 'B' | 'A' | 'z') => match self.next() {
                Some('b') => self.out.push_str("(?-u:\\b)"),
                Some('B') => self.out.push_str("(?-u:\\B)"),
                Some('A') => self.out.push_str("\\A"),
                _ => self.out.push_str("\\z"),
            },
            Some('Q') => {
                let quoted = self.rest.get(1..).unwrap_or_default();
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                literal.chars().for_each(|c| self.literal(c.into()));
                self.rest = rest;
            }
            _ if self.named_class() => {}
            _ => {
                let code = self.escaped();
                self.literal(code);
            }
        }
    }

    /// `\d`, `\pL`, `\P{Greek}` and the like, which may stand within a class too.
    fn named_class(&mut self) -> bool {
        let class = match self.rest.chars().next() {
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => "[\\t\\n\\x0C\\r ]",
            Some('S') => "[^\\t\\n\\x0C\\r ]",
            Some('p' | 'P') => {
                let negated = self.next() == Some('P');
                let name = match self.next() {
                    Some('{') => {
                        let (name, rest) = self.rest.split_once('}').unwrap_or((self.rest, ""));
                        self.rest = rest;
                        name.to_owned()
                    }
                    other => other.map(String::from).unwrap_or_default(),
                };
                let (inverted, name) = match name.strip_prefix('^') {
                    Some(name) => (true, name),
                    None => (false, name.as_str()),
                };
                let sign = if negated == inverted { 'p' } else { 'P' };
                let _ = write!(self.out, "\\{sign}{{{name}}}");
                return true;
            }
            _ => return false,
        };
        self.next();
        self.out.push_str(class);
        true
    }

    /// The character behind a backslash.
    fn escaped(&mut self) -> u32 {
        let Some(next) = self.next() else { return '\\'.into() };
        match next {
            '0'..='7' => {
                let mut code = next.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let digit = self.rest.chars().next().and_then(|c| c.to_digit(8));
                    let Some(digit) = digit else { break };
                    self.next();
                    code = code * 8 + digit;
                }
                code
            }
            'x' if self.skip("{") => {
                let (digits, rest) = self.rest.split_once('}').unwrap_or((self.rest, ""));
                self.rest = rest;
                u32::from_str_radix(digits, 16).unwrap_or(u32::MAX)
            }
            'x' => {
                let digits: String = self.rest.chars().take(2).collect();
                self.rest = self.rest.get(digits.len()..).unwrap_or_default();
                u32::from_str_radix(&digits, 16).unwrap_or(u32::MAX)
            }
            'a' => 7,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            other => other.into(),
        }
    }

    /// The rest of a class, behind its bracket.
    fn class(&mut self) {
        self.out.push('[');
        if self.skip("^") {
            self.out.push('^');
        }
        let mut first = true;
        while !self.rest.is_empty() && (first || !self.rest.starts_with(']')) {
            first = false;
            if self.posix_class() {
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix('\\') {
                let before = std::mem::replace(&mut self.rest, rest);
                if self.named_class() {
                    continue;
                }
                self.rest = before;
            }
            let low = self.member();
            self.literal(low);
            let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if range && self.rest.len() > 1 {
                self.next();
                self.out.push('-');
                let high = self.member();
                self.literal(high);
            }
        }
        self.next();
        self.out.push(']');
    }

    fn member(&mut self) -> u32 {
        match self.next() {
            Some('\\') => self.escaped(),
            Some(other) => other.into(),
            None => 0,
        }
    }

    /// `[:alpha:]`, which is the same in both.
    fn posix_class(&mut self) -> bool {
        let Some(named) = self.rest.strip_prefix("[:") else { return false };
        let Some((name, rest)) = named.split_once(":]") else { return false };
        let word = name.strip_prefix('^').unwrap_or(name);
        if !word.bytes().all(|b| b.is_ascii_lowercase()) {
            return false;
        }
        let _ = write!(self.out, "[:{name}:]");
        self.rest = rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap().is_match(text.as_bytes())
    }

    #[test]
    fn perl_classes_are_ascii() {
        assert!(matches(r"^\d+$", "12") && !matches(r"\d", "٣"));
        assert!(matches(r"^\w+$", "a_1") && !matches(r"\w", "é"));
        assert!(!matches(r"\s", "\u{a0}") && !matches(r"\s", "\u{b}"));
        assert!(matches(r"^[\d\s]+$", "1 2") && matches(r"^[^\d]$", "é"));
        assert!(matches(r"é\b", "éa") && !matches(r"a\b", "ab") && matches(r"a\B", "ab"));
        assert!(matches(r"[\D]", "x") && !matches(r"^[\D]$", "1"));
    }

    #[test]
    fn what_go_takes_literally() {
        assert!(matches("^a{,2}$", "a{,2}") && matches("^a{$", "a{") && matches("^a}]$", "a}]"));
        assert!(matches("^[[a&&b]+$", "[&&b"));
        assert!(matches("^[]a]+$", "]a") && matches("^[^]a]$", "b") && !matches("^[^]a]$", "]"));
        assert!(matches("^[a-]+$", "-a") && matches("^[a-c-e]+$", "b-e"));
        assert!(matches(r"^\<\>\-\/$", "<>-/"));
        assert!(matches(r"^\Qa.b*\E+$", "a.b**") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches("# x", "a # x"));
    }

    #[test]
    fn escapes_groups_and_flags() {
        assert!(matches(r"^\101\x42\x{43}\0$", "ABC\0"));
        assert!(matches("^(?P<1st>a)(?:b)$", "ab") && matches("(?i)ÄB", "äb"));
        assert!(
            matches("(?U)^a+$", "aaa") && matches("(?s)a.b", "a\nb") && !matches("a.b", "a\nb")
        );
        assert!(matches(r"a\z", "ba") && !matches(r"a\z", "a\n") && matches("(?m)a$", "a\n"));
        assert!(matches("^[[:alpha:]_]+$", "a_") && matches(r"^\pL\p{Greek}\P{^Lu}$", "xβA"));
        assert!(matches("a{2}b{1,}c{2,3}", "aabcc"));
        assert!(matches("", "anything") && matches("a|", "b") && matches("(?)a", "a"));
    }

    #[test]
    fn what_is_wrong_is_said_as_go_does() {
        let error = |pattern| compile(pattern).unwrap_err().to_string();
        let klingon = r"error parsing regexp: invalid character class range: `\p{Klingon}`";
        assert_eq!(error(r"a\p{Greek}\p{Klingon}"), klingon);
        assert_eq!(error("((("), "error parsing regexp: invalid expression: `(((`");
        let large = error(r"(\pL{100}){100}");
        assert!(large.contains("too large"), "{large}");
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in r"[\[\]\\(){}^$.|*+?:PQEdwbx0-9a-c<>=!-]{0,24}|\PC{0,12}") {
            drop(compile(&pattern));
        }

        #[test]
        fn a_quoted_text_matches_itself(text in "[^\\\\]{0,20}") {
            let pattern = format!("^\\Q{text}\\E$");
            prop_assert!(compile(&pattern).unwrap().is_match(text.as_bytes()));
        }
    }
}
