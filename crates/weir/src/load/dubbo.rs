//! What a load of Dubbo is made of.

use std::sync::Arc;

use clap::Args;
use meter::dubbo::{CallOptions, Dubbo, VaryingArguments};
use meter::url::Url;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use units::Duration;

use super::http::data_set;
use super::inputs::Inputs;
use super::values;
use crate::exit::Failure;

/// The method that is called, and with which arguments.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = "Dubbo")]
pub struct DubboOptions {
    // Its text is that of HTTP's option, which has the same name.
    #[arg(long, short = 'X', value_name = "NAME")]
    method: Option<String>,
    /// The Java types of the method's parameters, as java.lang.String,int
    #[arg(long, value_name = "TYPE,...", default_value = "", hide_default_value = true)]
    types: String,
    /// The arguments as a JSON array; an object is a bean of its type, or of its `class`. Within it
    /// {{column}} of --data, {{seq}} and {{random 1 9}} are other values in each call
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Calls the method through `$invoke` of GenericService, with beans as maps
    #[arg(long)]
    generic: bool,
    /// An attachment, as name=value; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = attachment)]
    #[serde(deserialize_with = "attachments")]
    attachment: Vec<(String, String)>,
    /// The version of the service; without it the URL's `version`, or none
    #[arg(long, value_name = "VERSION")]
    service_version: Option<String>,
    /// The group of the service; without it the URL's `group`, or none
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    // Their texts are those of HTTP's options, which have the same names.
    #[arg(long, value_name = "FILE[=ORDER]")]
    data: Vec<String>,
    #[arg(long, conflicts_with = "data")]
    literal: bool,
    /// TCP connections that the calls of all --connections share, each thread one at least
    #[arg(long, value_name = "N", default_value_t = 1)]
    channels: usize,
}

/// Reads arguments that have no gaps.
fn literal(text: &str) -> Result<Value, Failure> {
    let read = serde_json::from_str::<Value>(text);
    let read = read.map_err(|error| Failure::other(format!("--arguments is not JSON: {error}")))?;
    let words = "--arguments is a JSON array, as '[\"text\", 5]'";
    read.is_array().then_some(read).ok_or_else(|| Failure::other(words))
}

fn attachment(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        pair.ok_or_else(|| format!("{text:?} is not an attachment: write it as name=value"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn attachments<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<(String, String)>, D::Error> {
    values::each(field, attachment)
}

impl DubboOptions {
    /// The workload for that provider, which is told how long an answer may take.
    pub fn workload(
        &self,
        url: &Url,
        (inputs, seed): (&Inputs, u64),
        timeout: &Duration,
    ) -> Result<Dubbo, Failure> {
        let words = "a load of Dubbo calls one method of the interface: name it by --method";
        let method = self.method.clone().ok_or_else(|| Failure::other(words))?;
        let timeout = timeout.get();
        let varying = self.varying(inputs, seed)?;
        let text = self.arguments.as_deref().filter(|_| varying.is_none());
        let arguments = text.map(literal).transpose()?.unwrap_or_default();
        let options = CallOptions {
            method,
            types: self.types.clone(),
            arguments,
            varying: varying.map(Arc::new),
            is_generic: self.generic,
            attachments: self.attachment.clone(),
            version: self.service_version.clone(),
            group: self.group.clone(),
            channels: self.channels,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        Dubbo::new(url, &options).map_err(Failure::other)
    }

    /// The arguments, where they are different in each call.
    fn varying(&self, inputs: &Inputs, seed: u64) -> Result<Option<VaryingArguments>, Failure> {
        let text = self.arguments.as_deref().filter(|_| !self.literal).unwrap_or_default();
        let data = self.data.iter().zip(1..).map(|(data, salt)| data_set(inputs, data, salt));
        let data = data.collect::<Result<_, _>>()?;
        let varying = VaryingArguments::new(text, data, seed).map_err(Failure::other)?;
        if varying.is_none() && !self.data.is_empty() {
            let words = "--data has no effect: --arguments has no {{column}} of it";
            return Err(Failure::other(words));
        }
        Ok(varying)
    }

    /// What is sent and not described: the values of arguments and attachments.
    pub fn secrets(&self) -> String {
        json!([self.arguments, self.attachment]).to_string()
    }

    /// What is called, without values that may be secret.
    pub fn described(&self) -> Value {
        let names = self.attachment.iter().map(|(name, _)| name).collect::<Vec<_>>();
        json!({
            "method": self.method,
            "types": self.types,
            "generic": self.generic,
            "attachments": names,
            "service_version": self.service_version,
            "group": self.group,
            "data": self.data,
            "literal": self.literal,
            "channels": self.channels,
        })
    }
}
