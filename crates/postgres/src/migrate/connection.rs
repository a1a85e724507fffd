//! Connection strings: `host=db1 port=5432 connect_query='SELECT 1'`, read as PgBouncer reads them
//! (`cstr_get_pair` in `loader.c`).

/// The pairs in their order; `None` is a syntax error.
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ', '\t'])?;
        let (key, after) = rest.split_at(end);
        let after = after.trim_start().strip_prefix('=')?.trim_start();
        let (value, after) = match after.strip_prefix('\'') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = after.find([' ', '\t']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if key.is_empty() || value.is_empty() {
            return None;
        }
        found.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Some(found)
}

/// The text up to the closing quote, and what follows it.
fn unquoted(mut rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    loop {
        let (before, after) = rest.split_once('\'')?;
        text.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                text.push('\'');
                rest = after;
            }
            None => return Some((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn pairs_are_read_as_by_pgbouncer() {
        let read = |text: &str| {
            pairs(text).map(|pairs| {
                pairs.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>()
            })
        };
        let is = |pairs: &[&str]| Some(pairs.iter().map(|pair| (*pair).to_owned()).collect());
        assert_eq!(read(""), is(&[]));
        assert_eq!(read(" host=a  port = 1 "), is(&["host:a", "port:1"]));
        assert_eq!(read("connect_query='SELECT ''x'' = 1' a=b"), {
            is(&["connect_query:SELECT 'x' = 1", "a:b"])
        });
        for text in ["host", "host=", "=a", "a='b", "a=''"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
