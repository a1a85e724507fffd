//! What a client says to a server ("Message Formats", marked F).

mod build;

pub use build::*;

use super::read::{Malformed, Reader, message, put_text};

/// Tags of a client's messages.
#[expect(missing_docs, reason = "each is named after its message in \"Message Formats\"")]
pub mod tag {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    /// PasswordMessage, SASLInitialResponse, SASLResponse, GSSResponse.
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';

    /// Whether any message of a client has this tag.
    pub fn is_known(tag: u8) -> bool {
        matches!(tag, |b'B'..=b'F'| b'H' | b'P' | b'Q' | b'S' | b'X' | b'c' | b'd' | b'f' | b'p')
    }
}

/// The text of a Query.
///
/// # Errors
/// Not one string that ends with the message.
pub fn query(body: &[u8]) -> Result<&[u8], Malformed> {
    only_text(body, "Query")
}

/// The reason in a CopyFail.
///
/// # Errors
/// Not one string that ends with the message.
pub fn copy_fail(body: &[u8]) -> Result<&[u8], Malformed> {
    only_text(body, "CopyFail")
}

/// The password, or its md5 digest, in a PasswordMessage.
///
/// # Errors
/// Not one string that ends with the message.
pub fn password(body: &[u8]) -> Result<&[u8], Malformed> {
    only_text(body, "PasswordMessage")
}

fn only_text<'a>(body: &'a [u8], message: &'static str) -> Result<&'a [u8], Malformed> {
    let mut reader = Reader::new(body, message);
    let text = reader.text()?;
    reader.end()?;
    Ok(text)
}

/// Parse: makes a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The statement's name; empty for the unnamed one.
    pub name: &'a [u8],
    /// Its text, in the client's encoding.
    pub query: &'a [u8],
    /// Type OIDs of its parameters, four bytes each; 0 leaves one to the server.
    pub types: &'a [u8],
    /// Everything behind the name: what stays when it is given another.
    pub rest: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "Parse");
        let name = reader.text()?;
        let rest = reader.rest();
        let query = reader.text()?;
        let count = usize::from(reader.u16()?);
        let types = reader.bytes(count * 4)?;
        reader.end()?;
        Ok(Self { name, query, types, rest })
    }

    /// Number and types of its parameters, as they stand in the message.
    pub fn parameters(&self) -> &'a [u8] {
        self.rest.get(self.query.len() + 1..).unwrap_or_default()
    }

    /// Appends the message under another name.
    pub fn put_as(&self, out: &mut Vec<u8>, name: &[u8]) {
        message(out, tag::PARSE, |out| {
            put_text(out, name);
            out.extend_from_slice(self.rest);
        });
    }
}

/// Bind: makes a portal from a prepared statement and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal's name; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The statement's name; empty for the unnamed one.
    pub statement: &'a [u8],
    /// Formats and values, not looked at: the server says what is wrong with them.
    pub rest: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Reads a body as far as its names.
    ///
    /// # Errors
    /// A name doesn't end, or the least that must follow is missing.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "Bind");
        let (portal, statement) = (reader.text()?, reader.text()?);
        // Three counts: parameter formats, parameters, result formats.
        if reader.rest().len() < 6 {
            return Err(reader.malformed());
        }
        Ok(Self { portal, statement, rest: reader.rest() })
    }

    /// Appends the message with another statement's name.
    pub fn put_as(&self, out: &mut Vec<u8>, statement: &[u8]) {
        message(out, tag::BIND, |out| {
            put_text(out, self.portal);
            put_text(out, statement);
            out.extend_from_slice(self.rest);
        });
    }
}

/// What a Describe or a Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement of that name.
    Statement(&'a [u8]),
    /// A portal of that name.
    Portal(&'a [u8]),
}

impl<'a> Target<'a> {
    /// Reads the body of a Describe.
    ///
    /// # Errors
    /// Neither a statement nor a portal, or something is left over.
    pub fn of_describe(body: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(Reader::new(body, "Describe"))
    }

    /// Reads the body of a Close.
    ///
    /// # Errors
    /// Neither a statement nor a portal, or something is left over.
    pub fn of_close(body: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(Reader::new(body, "Close"))
    }

    fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        let name = reader.text()?;
        reader.end()?;
        match kind {
            b'S' => Ok(Self::Statement(name)),
            b'P' => Ok(Self::Portal(name)),
            _ => Err(reader.malformed()),
        }
    }
}

/// Execute: runs a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The portal's name; empty for the unnamed one.
    pub portal: &'a [u8],
    /// Rows after which it pauses; 0 or less: none.
    pub rows_max: i32,
}

impl<'a> Execute<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "Execute");
        let (portal, rows_max) = (reader.text()?, reader.i32()?);
        reader.end()?;
        Ok(Self { portal, rows_max })
    }
}

/// The OID of the function that a FunctionCall calls.
///
/// # Errors
/// The body is too short.
pub fn function_call(body: &[u8]) -> Result<u32, Malformed> {
    Reader::new(body, "FunctionCall").u32()
}

/// SASLInitialResponse: the choice of a mechanism. What follows (SASLResponse) is a body that is
/// the mechanism's message from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitial<'a> {
    /// The mechanism's registered name, such as `SCRAM-SHA-256`.
    pub mechanism: &'a [u8],
    /// The mechanism's first message, where there is one.
    pub response: Option<&'a [u8]>,
}

impl<'a> SaslInitial<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "SASLInitialResponse");
        let mechanism = reader.text()?;
        let response = match reader.i32()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| reader.malformed())?;
                Some(reader.bytes(length)?)
            }
        };
        reader.end()?;
        Ok(Self { mechanism, response })
    }
}
