//! Dubbo: calls of one method of a service, at a provider that is reached directly, or at those
//! that ZooKeeper has. A call is encoded once; each request is a copy of it with a number of its
//! own.

// Layers, from the top down.
//   zookeeper
//   providers
//   overrides
//   registry
//   channel
//   reader
//   settings

mod channel;
mod overrides;
mod providers;
mod reader;
mod registry;
mod settings;
#[cfg(test)]
mod tests;
mod zookeeper;

pub use channel::CallChannel;
pub use reader::CallReader;
pub use settings::{CallOptions, DubboError};

use std::sync::Arc;
use std::time::Duration;

use wire::dubbo::{
    Arguments, GENERIC_DESCRIPTOR, GENERIC_METHOD, RequestBody, descriptor_of,
    put_generic_arguments, put_request,
};
use wire::hessian2::{Beans, Encoder};

use crate::discovery::Discovery;
use crate::url::{Scheme, Url};
use crate::workload::{Channels, Workload};
use reader::ID;
use registry::{NO_VERSION, Service};
use zookeeper::ZooKeeper;

/// Calls a method of a service, and reads the answers.
#[derive(Debug, Clone)]
pub struct Dubbo {
    /// A request, whose number is to be put in.
    frame: Arc<[u8]>,
    operation: String,
    /// How many connections all calls share.
    channels: usize,
    /// Finds the providers, where the URL leads to a registry.
    discovery: Option<Arc<dyn Discovery>>,
}

impl Dubbo {
    /// Calls of the interface that the URL's path names. `version` and `group` of its query are
    /// those of the service, where the options have none.
    ///
    /// # Errors
    /// The URL names no interface, or the arguments are not values of their types.
    pub fn new(url: &Url, options: &CallOptions) -> Result<Self, DubboError> {
        let interface = settings::interface(url)?;
        let of_url = |name: &str| url.parameter(name).map(str::to_owned);
        let version = options.version.clone().or_else(|| of_url("version"));
        let group = options.group.clone().or_else(|| of_url("group"));
        let is_any = |name: &Option<String>| name.as_deref() == Some(registry::ANY);
        if is_any(&version) || is_any(&group) {
            return Err(DubboError::AnyService);
        }
        let timeout = options.timeout_ms.to_string();
        let mut attachments: Vec<(&str, &str)> =
            vec![("path", &interface), ("interface", &interface), ("timeout", &timeout)];
        attachments.extend(version.as_deref().map(|version| ("version", version)));
        attachments.extend(group.as_deref().map(|group| ("group", group)));
        if options.is_generic {
            attachments.push(("generic", "true"));
        }
        attachments.extend(options.attachments.iter().map(|(name, value)| (&**name, &**value)));
        let types = options.types()?;
        let beans = if options.is_generic { Beans::Maps } else { Beans::Objects };
        let values = options.values(&types, beans)?;
        let (mut encoder, mut generic) = (Encoder::default(), Vec::new());
        let own_descriptor = descriptor_of(types.iter().copied());
        let (method, descriptor, arguments) = if options.is_generic {
            // What is sent as a map has the raw type for its name.
            let raw: Vec<_> = types.iter().map(|name| settings::raw_type(name)).collect();
            let raw: Vec<_> = raw.iter().map(String::as_str).collect();
            put_generic_arguments(&mut generic, &mut encoder, &options.method, &raw, &values);
            (GENERIC_METHOD, GENERIC_DESCRIPTOR, Arguments::Encoded(&generic))
        } else {
            (&*options.method, &*own_descriptor, Arguments::Values(&values))
        };
        let body = RequestBody {
            path: &interface,
            service_version: version.as_deref().unwrap_or(NO_VERSION),
            method,
            descriptor,
            arguments,
            attachments: &attachments,
        };
        let mut frame = Vec::new();
        let bytes = put_request(&mut frame, &mut encoder, 0, true, &body);
        settings::check_length(bytes)?;
        let discovery = (url.scheme() == Scheme::ZooKeeper).then(|| {
            let service = Service { interface, version, group };
            let timeout = Duration::from_millis(options.timeout_ms);
            let of: Arc<dyn Discovery> =
                Arc::new(ZooKeeper::new(url, service, &options.method, timeout));
            of
        });
        Ok(Self {
            frame: frame.into(),
            operation: options.method.clone(),
            channels: options.channels,
            discovery,
        })
    }
}

impl Workload for Dubbo {
    type Reader = CallReader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        let begin = out.len();
        out.extend_from_slice(&self.frame);
        if let Some(id) = out.get_mut(begin + ID.start..begin + ID.end) {
            id.copy_from_slice(&number.to_be_bytes());
        }
        0
    }

    fn reader(&self) -> CallReader {
        CallReader::default()
    }

    fn channels(&self) -> Option<Channels> {
        Some(Channels {
            count: self.channels,
            protocol: CallChannel::boxed,
            discovery: self.discovery.clone(),
        })
    }

    fn operations(&self) -> Vec<String> {
        vec![self.operation.clone()]
    }
}
