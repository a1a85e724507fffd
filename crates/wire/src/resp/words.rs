//! The words of a line, as Redis's `sdssplitargs` has them.

/// Words between spaces, quoted by `"` with escapes, or by `'`. `None` where a quote is not
/// closed, or something follows it at once.
pub(super) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, behind @ ..] = rest
            && is_space(*first)
        {
            rest = behind;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some((byte, behind)) = rest.split_first() {
            match byte {
                b'"' => {
                    rest = quoted(behind, &mut word)?;
                    break;
                }
                b'\'' => {
                    rest = quoted_plainly(behind, &mut word)?;
                    break;
                }
                b' ' | b'\n' | b'\r' | b'\t' => break,
                _ => word.push(*byte),
            }
            rest = behind;
        }
        words.push(word);
    }
}

/// The characters of C's `isspace`, by which Redis splits an inline command.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Whether a quote may end before this.
fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| is_space(*byte))
}

fn quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match (byte, behind) {
            (b'"', _) => return ends_word(rest).then_some(rest),
            (b'\\', [b'x', high, low, behind @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
                word.extend(u8::try_from(digit(*high) * 16 + digit(*low)));
                rest = behind;
            }
            (b'\\', [escaped, behind @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = behind;
            }
            (byte, _) => word.push(*byte),
        }
    }
}

fn quoted_plainly<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                rest = behind;
            }
            [b'\'', behind @ ..] => return ends_word(behind).then_some(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
        }
    }
}
