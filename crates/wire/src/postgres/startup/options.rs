//! The startup parameter `options`: settings in the clothes of command-line switches.

/// A switch that is not `-c name=value` or `--name=value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported command-line switch in \"options\": {0}")]
pub struct OptionError(
    /// As it was given.
    pub String,
);

/// The settings in `options`, in their order.
///
/// Words are split as PostgreSQL's `pg_split_opts` does (white space, with `\` before what is
/// meant literally), and `-` in a name means `_` as in `ParseLongOption`.
///
/// # Errors
/// Any other switch, and a setting without `=`.
pub fn options(text: &str) -> Result<Vec<(String, String)>, OptionError> {
    let mut found = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(long), _) => Some(long.to_owned()),
            (None, Some("")) => words.next(),
            (None, Some(short)) => Some(short.to_owned()),
            (None, None) => None,
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('='));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            return Err(OptionError(setting.unwrap_or(word)));
        };
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    let is_space = |c: &char| c.is_ascii_whitespace() || *c == '\x0b';
    loop {
        while letters.next_if(is_space).is_some() {}
        if letters.peek().is_none() {
            return words;
        }
        let mut word = String::new();
        while let Some(letter) = letters.next_if(|c| !is_space(c)) {
            match letter {
                '\\' => word.extend(letters.next()),
                other => word.push(other),
            }
        }
        words.push(word);
    }
}
