//! Rust's text as names and signs: no comments, no strings, no lifetimes.

/// A piece of a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A name or a keyword.
    Name(String),
    /// `::`.
    Path,
    /// One character of anything else.
    Sign(char),
}

/// A token and its line, from 1.
pub type Placed = (Token, usize);

/// All tokens of `code`.
pub fn tokens(code: &str) -> Vec<Placed> {
    let chars: Vec<char> = code.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let end = at + length(&chars[at..]);
        let first = chars[at];
        let is_name = first.is_alphabetic() || first == '_';
        let is_quoted = is_name && matches!(chars[end - 1], '"' | '#' | '\'');
        if is_name && !is_quoted {
            found.push((Token::Name(chars[at..end].iter().collect()), line));
        } else if chars[at..end] == [':', ':'] {
            found.push((Token::Path, line));
        } else if end == at + 1 && !first.is_whitespace() {
            found.push((Token::Sign(first), line));
        }
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    found
}

/// How many characters the first token, comment, string or space has.
fn length(rest: &[char]) -> usize {
    let second = rest.get(1).copied().unwrap_or_default();
    let until = |end: &[char]| rest.windows(end.len()).skip(2).position(|part| part == end);
    match rest[0] {
        '/' if second == '/' => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        '/' if second == '*' => until(&['*', '/']).map_or(rest.len(), |at| at + 4),
        '"' => quoted(rest, '"'),
        '\'' if second == '\\' || rest.get(2) == Some(&'\'') => quoted(rest, '\''),
        // A lifetime.
        '\'' => 1 + word(&rest[1..]),
        ':' if second == ':' => 2,
        'b' | 'c' if second == '"' || (second == '\'') => 1 + quoted(&rest[1..], second),
        'r' if matches!(second, '"' | '#') => raw(rest).unwrap_or(1),
        'b' | 'c' if second == 'r' && matches!(rest.get(2), Some('"' | '#')) => {
            raw(&rest[1..]).map_or(2, |len| 1 + len)
        }
        first if first.is_alphanumeric() || first == '_' => word(rest),
        _ => 1,
    }
}

/// A string that ends with `quote`, as it began.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A string without escapes; `None` where it is none.
fn raw(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let body = rest.get(1 + hashes..)?;
    let close = body.get(1..)?.windows(end.len()).position(|part| part == end)?;
    (body[0] == '"').then_some(1 + hashes + 1 + close + end.len())
}

fn word(rest: &[char]) -> usize {
    rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count().max(1)
}

#[test]
fn what_is_no_code_is_left_out() {
    let code =
        "/* a::b */ let x: &'a str = \"c::d\"; // e\nf::<'g'>(b\"h\\\"\", r#\"i\"j\"#, '\\'')";
    let names: Vec<_> = tokens(code)
        .into_iter()
        .filter_map(|(token, line)| match token {
            Token::Name(name) => Some((name, line)),
            _ => None,
        })
        .collect();
    let expected = [("let", 1), ("x", 1), ("str", 1), ("f", 2)];
    assert_eq!(names, expected.map(|(name, line)| (name.to_owned(), line)));
}
