//! What of a call can be chosen, and its limits.

use std::sync::Arc;

use serde_json::Value as Json;
use wire::dubbo::BODY_BYTES_DEFAULT_MAX;
use wire::hessian2::{Beans, ConversionError, Value, from_json};

use super::varying::VaryingArguments;
use crate::url::Url;

/// A call can't be made of what was given.
#[derive(Debug, thiserror::Error)]
pub enum DubboError {
    /// The path of the URL is empty, or not UTF-8.
    #[error("the URL names no interface: write it as dubbo://host:20880/com.acme.OrderService")]
    Interface,
    /// Providers of several services would be called.
    #[error(
        "* is no version or group that can be called: name one by --service-version and --group"
    )]
    AnyService,
    /// There are none, or more or fewer than there are types.
    #[error(
        "there are {arguments} arguments and {types} types: --types has the Java type of each \
         argument, as java.lang.String,int"
    )]
    Count {
        /// How many arguments were given.
        arguments: usize,
        /// How many types were given.
        types: usize,
    },
    /// The arguments are not JSON, or not an array of it.
    #[error("the arguments are not a JSON array, as '[\"text\", 5]'")]
    NotAnArray,
    /// The brackets of a type with arguments do not match.
    #[error("the brackets of the types {0:?} do not match")]
    Brackets(String),
    /// An argument is not a value of its type.
    #[error("argument {number}: {source}")]
    Argument {
        /// Its place among the arguments, counted from 1.
        number: usize,
        /// What does not fit.
        source: ConversionError,
    },
    /// A provider takes no more than that, where nothing else is set.
    #[error("the call has {0} bytes, and a provider takes {BODY_BYTES_DEFAULT_MAX}")]
    TooLong(u32),
}

/// What is called, and with what.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// The name of the method.
    pub method: String,
    /// The Java types of the parameters, with commas between them.
    pub types: String,
    /// A JSON array with one element for each type.
    pub arguments: Json,
    /// In their place, those that are different in each call.
    pub varying: Option<Arc<VaryingArguments>>,
    /// The call goes through `$invoke` of `GenericService`.
    pub is_generic: bool,
    /// Further attachments, by name and value.
    pub attachments: Vec<(String, String)>,
    /// The version of the service.
    pub version: Option<String>,
    /// The group of the service.
    pub group: Option<String>,
    /// What the provider is told of how long the answer may take.
    pub timeout_ms: u64,
    /// Connections that all calls share, Dubbo's `connections`; 0 is one for each thread.
    pub channels: usize,
}

impl CallOptions {
    /// The types, one by one; commas within brackets are of one type.
    pub(super) fn types(&self) -> Result<Vec<&str>, DubboError> {
        let wrong = || DubboError::Brackets(self.types.clone());
        if self.types.trim().is_empty() {
            return Ok(Vec::new());
        }
        let (mut types, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
        for (at, byte) in self.types.bytes().enumerate() {
            match byte {
                b'<' => depth += 1,
                b'>' => depth = depth.checked_sub(1).ok_or_else(wrong)?,
                b',' if depth == 0 => {
                    types.push(self.types[begin..at].trim());
                    begin = at + 1;
                }
                _ => {}
            }
        }
        if depth > 0 {
            return Err(wrong());
        }
        types.push(self.types[begin..].trim());
        Ok(types)
    }
}

/// Arguments as values of their types.
pub(super) fn values(
    arguments: &Json,
    types: &[&str],
    beans: Beans,
) -> Result<Vec<Value>, DubboError> {
    let arguments = match arguments {
        Json::Null => &[][..],
        Json::Array(arguments) => &arguments[..],
        _ => return Err(DubboError::NotAnArray),
    };
    if arguments.len() != types.len() {
        return Err(DubboError::Count { arguments: arguments.len(), types: types.len() });
    }
    let each = arguments.iter().zip(types).zip(1..).map(|((argument, java_type), number)| {
        from_json(argument, java_type, beans)
            .map_err(|source| DubboError::Argument { number, source })
    });
    each.collect()
}

/// The interface that a URL's path names.
pub(super) fn interface(url: &Url) -> Result<String, DubboError> {
    url.path().filter(|path| !path.is_empty()).ok_or(DubboError::Interface)
}

/// Refuses a call that no provider takes.
pub(super) fn check_length(bytes: u32) -> Result<(), DubboError> {
    if bytes > BODY_BYTES_DEFAULT_MAX { Err(DubboError::TooLong(bytes)) } else { Ok(()) }
}

/// A type without its arguments: `java.util.List[]` of `java.util.List<int>[]`.
pub(super) fn raw_type(java_type: &str) -> String {
    match (java_type.split_once('<'), java_type.rsplit_once('>')) {
        (Some((raw, _)), Some((_, brackets))) => format!("{raw}{brackets}"),
        _ => java_type.to_owned(),
    }
}
