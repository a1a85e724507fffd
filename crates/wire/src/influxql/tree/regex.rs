//! Whether a regular expression is one to Go, and if not, what Go says (`regexp/syntax/parse.go`).
//!
//! Whether a Unicode class has a name that Go knows is left to whoever compiles it.

mod class;

/// The largest count, also of counts within each other multiplied.
const REPEAT_MAX: i64 = 1_000;

const BAD_CLASS_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_NAME: &str = "invalid named capture";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_REPEAT: &str = "invalid nested repetition operator";
const BAD_COUNT: &str = "invalid repeat count";
const NO_BRACKET: &str = "missing closing ]";
const NO_PAREN: &str = "missing closing )";
const NO_ARGUMENT: &str = "missing argument to repetition operator";
const NO_ESCAPED: &str = "trailing backslash at end of expression";
const TOO_MANY_PARENS: &str = "unexpected )";

type Result<T> = std::result::Result<T, String>;

fn wrong<T>(why: &str, part: &str) -> Result<T> {
    Err(format!("error parsing regexp: {why}: `{part}`"))
}

/// Checks an expression.
///
/// # Errors
/// Go's message.
pub(super) fn check(whole: &str) -> Result<()> {
    let mut reader = Reader { whole, rest: whole, groups: vec![Group::default()], repeated: None };
    while !reader.rest.is_empty() {
        reader.element()?;
    }
    if reader.groups.len() > 1 { wrong(NO_PAREN, whole) } else { Ok(()) }
}

/// What is known of a group whose end was not reached.
#[derive(Clone, Copy, Default)]
struct Group {
    /// What a repetition would repeat: how often it repeats something within at most, multiplied.
    operand: Option<i64>,
    /// The most of all operands.
    most: i64,
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    /// The innermost last; the first is the whole.
    groups: Vec<Group>,
    /// The text from the repetition that was just read.
    repeated: Option<&'a str>,
}

/// What `before` has more than `after`, its end.
fn part<'a>(before: &'a str, after: &str) -> &'a str {
    before.get(..before.len().saturating_sub(after.len())).unwrap_or_default()
}

impl<'a> Reader<'a> {
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

    fn element(&mut self) -> Result<()> {
        let before = self.rest;
        let repeated = self.repeated.take();
        match self.next() {
            Some('(') if self.rest.starts_with('?') => self.perl_group(before),
            Some('(') => {
                self.groups.push(Group::default());
                Ok(())
            }
            Some('|') => {
                self.alternative();
                Ok(())
            }
            Some(')') => self.close(),
            Some('[') => {
                self.class(before)?;
                self.operand(1);
                Ok(())
            }
            Some('*' | '+' | '?') => self.repeat(before, repeated, (0, 0)),
            Some('{') => match self.counts(before) {
                Some((least, most)) => {
                    let ordered = most < 0 || least <= most;
                    if !(0..=REPEAT_MAX).contains(&least) || most > REPEAT_MAX || !ordered {
                        return wrong(BAD_COUNT, part(before, self.rest));
                    }
                    self.repeat(before, repeated, (least, most))
                }
                None => {
                    self.rest = before.strip_prefix('{').unwrap_or_default();
                    self.operand(1);
                    Ok(())
                }
            },
            Some('\\') => self.escape(before),
            Some(_) => {
                self.operand(1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn operand(&mut self, repeats: i64) {
        if let Some(group) = self.groups.last_mut() {
            group.operand = Some(repeats);
            group.most = group.most.max(repeats);
        }
    }

    fn alternative(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.operand = None;
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.groups.pop() {
            Some(group) if !self.groups.is_empty() => {
                self.operand(group.most.max(1));
                Ok(())
            }
            _ => wrong(TOO_MANY_PARENS, self.whole),
        }
    }

    /// A repetition, read up to a question mark that makes it lazy.
    fn repeat(
        &mut self,
        before: &'a str,
        repeated: Option<&str>,
        counts: (i64, i64),
    ) -> Result<()> {
        self.skip("?");
        if let Some(repeated) = repeated {
            return wrong(BAD_REPEAT, part(repeated, self.rest));
        }
        let operand = self.groups.last().and_then(|group| group.operand);
        let Some(repeats) = operand else {
            return wrong(NO_ARGUMENT, part(before, self.rest));
        };
        let (least, most) = counts;
        if least >= 2 || most >= 2 {
            let times = if most < 0 { least } else { most };
            let product = repeats.saturating_mul(times);
            if product > REPEAT_MAX {
                return wrong(BAD_COUNT, part(before, self.rest));
            }
            self.operand(product);
        }
        self.repeated = Some(before);
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,3}`; the second is below zero where it has no end, the first where a
    /// number is past all bounds.
    fn counts(&mut self, before: &'a str) -> Option<(i64, i64)> {
        self.rest = before.strip_prefix('{')?;
        let least = self.count()?;
        if !self.skip(",") {
            return self.skip("}").then_some((least, least));
        }
        if self.skip("}") {
            return Some((least, -1));
        }
        let most = self.count()?;
        self.skip("}").then_some(if most < 0 { (-1, most) } else { (least, most) })
    }

    fn count(&mut self) -> Option<i64> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = part(self.rest, rest);
        self.rest = rest;
        if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
            return None;
        }
        Some(digits.parse().ok().filter(|count| *count <= 100_000_000).unwrap_or(-1))
    }

    /// Reads a group that begins with `(?`: a named one or one with flags.
    fn perl_group(&mut self, before: &'a str) -> Result<()> {
        if before.len() > 4 && self.rest.starts_with("?P<") {
            let Some(end) = before.find('>') else { return wrong(BAD_NAME, before) };
            let name = before.get(4..end).unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return wrong(BAD_NAME, before.get(..=end).unwrap_or_default());
            }
            self.rest = before.get(end + 1..).unwrap_or_default();
            self.groups.push(Group::default());
            return Ok(());
        }
        self.skip("?");
        let (mut negated, mut flagged) = (false, false);
        while let Some(next) = self.next() {
            match next {
                'i' | 'm' | 's' | 'U' => flagged = true,
                '-' if !negated => (negated, flagged) = (true, false),
                ':' | ')' if flagged || !negated => {
                    if next == ':' {
                        self.groups.push(Group::default());
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        wrong(BAD_PERL, part(before, self.rest))
    }

    fn escape(&mut self, before: &'a str) -> Result<()> {
        match self.rest.chars().next() {
            Some('C') => return wrong(BAD_ESCAPE, "\\C"),
            Some('Q') => {
                let quoted = self.rest.get(1..).unwrap_or_default();
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                self.rest = rest;
                if !literal.is_empty() {
                    self.operand(1);
                }
                return Ok(());
            }
            Some('A' | 'b' | 'B' | 'z') => drop(self.next()),
            _ if self.named_class(before)? => {}
            _ => drop(self.escaped(before)?),
        }
        self.operand(1);
        Ok(())
    }

    /// A character behind a backslash (`parseEscape`); `before` begins with the backslash.
    fn escaped(&mut self, before: &'a str) -> Result<u32> {
        self.rest = before.strip_prefix('\\').unwrap_or_default();
        let Some(first) = self.next() else { return wrong(NO_ESCAPED, "") };
        let octal = |c: char| c.is_digit(8);
        let code = match first {
            '0' => Some(self.octal(0)),
            '1'..='7' if self.rest.starts_with(octal) => {
                Some(self.octal(first.to_digit(8).unwrap_or(0)))
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            _ if first.is_ascii() && !first.is_ascii_alphanumeric() => Some(first.into()),
            _ => None,
        };
        code.map_or_else(|| wrong(BAD_ESCAPE, part(before, self.rest)), Ok)
    }

    fn octal(&mut self, first: u32) -> u32 {
        let mut code = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            self.next();
            code = code * 8 + digit;
        }
        code
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut code = None;
        loop {
            match self.next()? {
                '}' => return code,
                digit => {
                    let sum = code.unwrap_or(0) * 16 + digit.to_digit(16)?;
                    code = Some(sum).filter(|sum| *sum <= u32::from(char::MAX));
                    code?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes() {
        for good in [
            "",
            "^a.*b$",
            "(a|b)",
            "a|",
            "()",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[[:alpha:]_]",
            r"\d+\.\w*?",
            "(?i)x",
            "(?i-s:x)",
            "(?P<n>x)",
            "a{2}",
            "a{,2}",
            "a{",
            "a{2,}b{3,5}?",
            r"\Qa(b\E+",
            r"\pL\p{Greek}\P{^Lu}",
            r"\x41\x{10FFFF}\012",
            "^*",
            "(a{10}){100}",
            "é*",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_go_refuses() {
        for (bad, why, shown) in [
            ("*", NO_ARGUMENT, "*"),
            ("a|*?", NO_ARGUMENT, "*?"),
            ("(+)", NO_ARGUMENT, "+"),
            ("a**", BAD_REPEAT, "**"),
            ("a{2}{3}", BAD_REPEAT, "{2}{3}"),
            ("a{1001}", BAD_COUNT, "{1001}"),
            ("a{3,2}b", BAD_COUNT, "{3,2}"),
            ("((a{10}){10}){11}", BAD_COUNT, "{11}"),
            ("a(b", NO_PAREN, "a(b"),
            ("a)b", TOO_MANY_PARENS, "a)b"),
            ("x[ab", NO_BRACKET, "[ab"),
            ("[z-a]", BAD_CLASS_RANGE, "z-a"),
            ("[[:foo:]]", BAD_CLASS_RANGE, "[:foo:]"),
            (r"\y", BAD_ESCAPE, r"\y"),
            (r"\1", BAD_ESCAPE, r"\1"),
            (r"\x{110000}", BAD_ESCAPE, r"\x{110000"),
            (r"\C", BAD_ESCAPE, r"\C"),
            ("a\\", NO_ESCAPED, ""),
            ("(?=a)", BAD_PERL, "(?="),
            ("(?i-)", BAD_PERL, "(?i-)"),
            ("(?P<a b>c)", BAD_NAME, "(?P<a b>"),
            ("(?P<a", BAD_NAME, "(?P<a"),
        ] {
            assert_eq!(check(bad), wrong(why, shown), "{bad}");
        }
    }
}
