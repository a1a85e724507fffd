//! The shape of a `nutcracker.yml`: pools of keys, and behind a key a text or a list of texts.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, StrInput};

use super::NutcrackerError;

/// A text and where it stands.
#[derive(Debug)]
pub struct Text {
    pub line: usize,
    pub text: String,
}

/// What stands behind a key.
#[derive(Debug)]
pub enum Value {
    One(Text),
    Many(Vec<Text>),
}

/// A pool as it was written.
#[derive(Debug)]
pub struct RawPool {
    pub name: Text,
    pub keys: Vec<(Text, Value)>,
}

/// What is wrong, before it is known in which pool.
struct Fault {
    line: usize,
    what: String,
}

impl From<Fault> for NutcrackerError {
    fn from(Fault { line, what }: Fault) -> Self {
        Self::File { line, what }
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

/// The pools of a file, each key of a pool at most once.
pub fn read(text: &str) -> Result<Vec<RawPool>, NutcrackerError> {
    // libyaml takes a byte order mark at the beginning.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let mut pools = Vec::new();
    let mut is_open = false;
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (Event::MappingStart(..), line) if is_open || !pools.is_empty() => {
                return Err(Fault::new(line, "begins a second document, of one").into());
            }
            (Event::MappingStart(..), _) => is_open = true,
            (Event::MappingEnd, _) => is_open = false,
            (Event::Scalar(name, ..), line) if is_open => {
                pools.push(reader.pool(Text { line, text: name.into_owned() })?);
            }
            (Event::StreamEnd, _) if pools.is_empty() => {
                return Err(Fault::new(1, "there are no pools").into());
            }
            (Event::StreamEnd, _) => return Ok(pools),
            (_, line) => return Err(Fault::new(line, "this is not \"pool:\"").into()),
        }
    }
}

impl Fault {
    fn new(line: usize, what: &str) -> Self {
        Self { line, what: what.to_owned() }
    }

    fn in_pool(self, pool: &str) -> NutcrackerError {
        NutcrackerError::Pool { line: self.line, pool: pool.to_owned(), what: self.what }
    }

    fn in_key(self, pool: &str, key: &str) -> NutcrackerError {
        let (pool, key) = (pool.to_owned(), key.to_owned());
        NutcrackerError::Key { line: self.line, pool, key, what: self.what }
    }
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, usize), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => {
                let what = format!("is not YAML: {}", error.info());
                Err(Fault { line: error.marker().line(), what })
            }
            None => Err(Fault::new(1, "the file ends too early")),
        }
    }

    fn pool(&mut self, name: Text) -> Result<RawPool, NutcrackerError> {
        match self.next().map_err(|fault| fault.in_pool(&name.text))? {
            (Event::MappingStart(..), _) => {}
            (_, line) => {
                return Err(Fault::new(line, "has no keys").in_pool(&name.text));
            }
        }
        let (mut keys, mut known) = (Vec::new(), HashSet::new());
        loop {
            match self.next().map_err(|fault| fault.in_pool(&name.text))? {
                (Event::MappingEnd, _) => return Ok(RawPool { name, keys }),
                (Event::Scalar(key, ..), line) => {
                    if !known.insert(key.clone()) {
                        return Err(Fault::new(line, "is there twice").in_key(&name.text, &key));
                    }
                    let value = self.value().map_err(|fault| fault.in_key(&name.text, &key))?;
                    keys.push((Text { line, text: key.into_owned() }, value));
                }
                (_, line) => {
                    let fault = Fault::new(line, "has something that is not \"key: value\"");
                    return Err(fault.in_pool(&name.text));
                }
            }
        }
    }

    fn value(&mut self) -> Result<Value, Fault> {
        match self.next()? {
            (Event::Scalar(text, ..), line) => Ok(Value::One(filled(line, &text)?)),
            (Event::SequenceStart(..), _) => {
                let mut texts = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(Value::Many(texts)),
                        (Event::Scalar(text, ..), line) => texts.push(filled(line, &text)?),
                        (_, line) => return Err(Fault::new(line, "has more than texts in it")),
                    }
                }
            }
            (_, line) => Err(Fault::new(line, "is neither a text nor a list; quote it")),
        }
    }
}

fn filled(line: usize, text: &str) -> Result<Text, Fault> {
    if text.is_empty() {
        return Err(Fault::new(line, "is empty"));
    }
    Ok(Text { line, text: text.to_owned() })
}
