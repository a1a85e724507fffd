//! Passwords and tokens in the configuration, which nothing prints.

use std::fmt;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A password or token: shown as `***` wherever settings are printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret that was read elsewhere.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The first line of `file` where one is named, else the secret itself.
    ///
    /// # Errors
    /// The file can't be read; the error names it.
    pub fn or_from(&self, file: Option<&Path>) -> io::Result<Self> {
        let Some(file) = file else {
            return Ok(self.clone());
        };
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} can't be read: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(named)?;
        Ok(Self::new(text.lines().next().unwrap_or_default()))
    }

    /// Whether no secret was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "\"\"" } else { "***" })
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.is_empty() { "" } else { "***" })
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_file_comes_before_what_is_written() {
        let written = Secret::new("written");
        assert_eq!(written.or_from(None).unwrap(), written);
        let file = std::env::temp_dir().join(format!("weir-secret-{}", std::process::id()));
        std::fs::write(&file, "from a file\nand more").unwrap();
        assert_eq!(written.or_from(Some(&file)).unwrap().reveal(), "from a file");
        std::fs::remove_file(&file).unwrap();
        let error = written.or_from(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("weir-secret-"), "{error}");
    }

    #[test]
    fn secrets_are_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(format!("{:?}", Secret::default()), "\"\"");
    }
}
