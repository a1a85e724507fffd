//! When two answers are the same: byte for byte, but for numbers that are not whole.

/// How far two computed floats may be apart, as a share of the larger one.
const TOLERANCE: f64 = 1e-9;
/// What may be left of numbers that cancel each other out, and is a matter of the order in which
/// they are added.
const LEFT: std::ops::Range<f64> = 1e-18..1e-12;

/// Where two JSON texts begin to differ, as offsets into both; `None` where they are the same.
pub fn json(theirs: &str, ours: &str) -> Option<(usize, usize)> {
    walk(theirs, ours, |a, b| a == b || is_number(a) && is_number(b) && same_number(a, b))
}

/// The same where only the shape of the answer is determined: which kind of thing stands where.
pub fn shape(theirs: &str, ours: &str) -> Option<(usize, usize)> {
    let kind = |token: &str| (is_number(token), token.starts_with('"'));
    walk(theirs, ours, |a, b| a == b || kind(a) == kind(b) && kind(a) != (false, false))
}

fn walk(theirs: &str, ours: &str, same: impl Fn(&str, &str) -> bool) -> Option<(usize, usize)> {
    let (mut a, mut b) = (0, 0);
    loop {
        let (left, right) = (token(&theirs[a..]), token(&ours[b..]));
        if left.is_empty() && right.is_empty() {
            return None;
        }
        if !same(left, right) {
            return Some((a, b));
        }
        a += left.len();
        b += right.len();
    }
}

/// A string, a number or one character; empty at the end.
fn token(text: &str) -> &str {
    let Some(first) = text.chars().next() else { return "" };
    let length = match first {
        '"' => {
            let mut escaped = false;
            let end = text[1..].find(|c| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            });
            end.map_or(text.len(), |end| end + 2)
        }
        '-' | '0'..='9' => {
            let part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            text.find(|c| !part(c)).unwrap_or(text.len())
        }
        _ => first.len_utf8(),
    };
    &text[..length]
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// Whole numbers must be equal; and what is the same number must be written the same way.
fn same_number(a: &str, b: &str) -> bool {
    let whole = |text: &str| !text.contains(['.', 'e', 'E']);
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
    // Two different texts of one number, or two whole numbers.
    if x == y || whole(a) && whole(b) {
        return false;
    }
    let (apart, larger) = ((x - y).abs(), x.abs().max(y.abs()));
    apart <= TOLERANCE * larger || LEFT.contains(&larger)
}

#[test]
fn computed_floats_may_differ_a_little_and_nothing_else() {
    let same = |a, b| json(a, b).is_none();
    assert!(same(r#"{"a":[1.5,"x\"y",null]}"#, r#"{"a":[1.5,"x\"y",null]}"#));
    assert!(same("[0.30000000000000004]", "[0.3]"));
    assert!(same("[3]", "[3.0000000000000004]"));
    assert!(same("[-1.5e-15]", "[0]"), "what is left of a sum");
    assert!(!same("[1.5e-11]", "[0]") && !same("[5e-324]", "[0]"));
    assert!(!same("[3]", "[4]"), "whole numbers are exact");
    assert!(!same("[1583848800000000001]", "[1583848800000000002]"));
    assert!(!same("[3]", "[3.0]"), "written as InfluxDB writes it");
    assert!(!same("[1e+21]", "[1000000000000000000000]"));
    assert!(!same(r#"["1"]"#, "[1]"));
    assert!(!same("[1.5]", "[1.6]"));
    assert!(!same("[1,2]", "[1,2,3]"));
    assert!(!same(r#"["a<"]"#, r#"["a\u003c"]"#));
    assert_eq!(json(r#"{"a":1}"#, r#"{"a":2}"#), Some((5, 5)));
}

#[test]
fn a_shape_has_the_same_kinds_of_values() {
    let same = |a, b| shape(a, b).is_none();
    assert!(same(r#"["x",1]"#, r#"["yy",2.5]"#));
    assert!(!same(r#"["x",1]"#, r#"["x",null]"#));
    assert!(!same(r#"["x",1]"#, r#"["x","y"]"#));
    assert!(!same(r#"["x"]"#, r#"["x","y"]"#));
}
