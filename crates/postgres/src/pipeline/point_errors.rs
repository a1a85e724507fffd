//! The error of a point statement as a server tells it of the text that the client has written:
//! positions count there, and a constant that its column does not take is no parameter.

use wire::postgres::backend::Fields;
use wire::postgres::message;
use wire::sql::{Strings, constant_position, written_position};

/// How a server begins the line of an error's context that names a parameter (`postgres.c`,
/// `bind_param_error_callback`), where it speaks English.
const PARAMETER: &[u8] = b"unnamed portal parameter $";

/// Errors that a value's type does not make but what is demanded of it, as by a domain: of a
/// constant a server finds them when it runs the statement, and tells no position.
const INTEGRITY_CLASS: &[u8] = b"23";

/// The ErrorResponse with this body, for a client that has written `sql`.
pub fn restored(body: &[u8], sql: &[u8], strings: Strings) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 8);
    let Ok(fields) = Fields::read(body) else {
        message(&mut out, b'E', |out| out.extend_from_slice(body));
        return out;
    };
    let context = fields.get(b'W').and_then(of_parameter);
    let position = match &context {
        Some(of) if !fields.code().starts_with(INTEGRITY_CLASS) => {
            constant_position(sql, strings, of.parameter)
        }
        _ => {
            let position = fields.get(b'P').and_then(number);
            position.and_then(|position| written_position(sql, strings, position))
        }
    };
    let put = |out: &mut Vec<u8>, letter: u8, text: &[u8]| {
        out.push(letter);
        out.extend_from_slice(text);
        out.push(0);
    };
    message(&mut out, b'E', |out| {
        let mut position = position;
        for (letter, text) in fields.iter() {
            // A server puts it in front of where its own code is (`elog.c`).
            if matches!(letter, b'P' | b'p' | b'F' | b'L' | b'R')
                && let Some(position) = position.take()
            {
                put(out, b'P', position.to_string().as_bytes());
            }
            match (letter, &context) {
                (b'P', _) => {}
                (b'W', Some(of)) if of.rest.is_empty() => {}
                (b'W', Some(of)) => put(out, letter, of.rest),
                _ => put(out, letter, text),
            }
        }
        if let Some(position) = position {
            put(out, b'P', position.to_string().as_bytes());
        }
        out.push(0);
    });
    out
}

/// A context whose last line names a parameter.
struct ParameterContext<'a> {
    parameter: usize,
    /// The lines before, without the end of the last one.
    rest: &'a [u8],
}

fn of_parameter(context: &[u8]) -> Option<ParameterContext<'_>> {
    // What a line says of the value may have lines of its own.
    let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', context).map(|at| at + 1));
    starts.into_iter().find_map(|start| {
        let named = context[start..].strip_prefix(PARAMETER)?;
        let digits = named.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let parameter = number(&named[..digits])?;
        Some(ParameterContext { parameter, rest: &context[..start.saturating_sub(1)] })
    })
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &[u8] = b"INSERT  INTO t VALUES  (12, 'abc')";

    fn told(fields: &[(u8, &str)]) -> Vec<(u8, String)> {
        let mut body = Vec::new();
        for (letter, text) in fields {
            body.push(*letter);
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.push(0);
        let told = restored(&body, SQL, Strings::Standard);
        let fields = Fields::read(&told[5..]).unwrap();
        fields
            .iter()
            .map(|(letter, text)| (letter, String::from_utf8(text.into()).unwrap()))
            .collect()
    }

    #[test]
    fn a_position_counts_in_what_the_client_has_written() {
        let before = [(b'C', "42703"), (b'M', "no"), (b'P', "13"), (b'R', "f")];
        let after = [(b'C', "42703"), (b'M', "no"), (b'P', "14"), (b'R', "f")];
        assert_eq!(told(&before), after.map(|(letter, text)| (letter, text.to_owned())));
        let beyond = [(b'C', "42601"), (b'P', "99")];
        assert_eq!(told(&beyond), [(b'C', "42601".to_owned())]);
    }

    #[test]
    fn a_parameter_is_a_constant_again() {
        for (context, rest) in [
            ("unnamed portal parameter $2", None),
            ("unnamed portal parameter $2 = 'a\nunnamed portal parameter $1'", None),
            ("JSON data, line 1: abc\nunnamed portal parameter $2", Some("JSON data, line 1: abc")),
        ] {
            let found = told(&[(b'C', "22P02"), (b'M', "no"), (b'W', context), (b'R', "f")]);
            let mut expected = vec![(b'C', "22P02".to_owned()), (b'M', "no".to_owned())];
            expected.extend(rest.map(|rest| (b'W', rest.to_owned())));
            expected.extend([(b'P', "29".to_owned()), (b'R', "f".to_owned())]);
            assert_eq!(found, expected);
        }
        let of_a_domain = [(b'C', "23514"), (b'W', "unnamed portal parameter $2")];
        assert_eq!(told(&of_a_domain), [(b'C', "23514".to_owned())]);
        let of_another = [(b'C', "22P02"), (b'W', "PL/pgSQL function f() line 1")];
        assert_eq!(told(&of_another).len(), 2);
    }
}
