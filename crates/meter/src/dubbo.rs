//! Dubbo: calls of one method of a service, at a provider that is reached directly, or at those
//! that ZooKeeper has. A call is encoded once, and each request is a copy of it with a number of
//! its own; calls whose arguments vary are encoded one by one.

// Layers, from the top down.
//   zookeeper
//   providers
//   overrides
//   call
//   registry
//   channel
//   reader
//   settings
//   varying

mod call;
mod channel;
mod overrides;
mod providers;
mod reader;
mod registry;
mod settings;
#[cfg(test)]
mod tests;
mod varying;
mod zookeeper;

pub use channel::CallChannel;
pub use reader::CallReader;
pub use settings::{CallOptions, DubboError};
pub use varying::VaryingArguments;

use std::sync::Arc;
use std::time::Duration;

use crate::discovery::Discovery;
use crate::url::{Scheme, Url};
use crate::workload::{Channels, Workload};
use call::CallHead;
use reader::ID;
use registry::Service;
use zookeeper::ZooKeeper;

/// Calls a method of a service, and reads the answers.
#[derive(Debug, Clone)]
pub struct Dubbo {
    /// A request, whose number is to be put in.
    frame: Arc<[u8]>,
    /// Makes a request, where no two are the same.
    varying: Option<(Arc<CallHead>, Arc<VaryingArguments>)>,
    /// Arguments of a call as text.
    scratch: Vec<u8>,
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
        let service = Service { interface, version, group };
        let (head, mut frame) = (CallHead::new(&service, options)?, Vec::new());
        // What is wrong with arguments that vary is told by those of the first call.
        let first = options.varying.as_ref().map(|varying| varying.of_call(0, &mut Vec::new()));
        let first = first.map(|first| first.ok_or(DubboError::NotAnArray)).transpose()?;
        head.put(first.as_ref().unwrap_or(&options.arguments), &mut frame)?;
        let discovery = (url.scheme() == Scheme::ZooKeeper).then(|| {
            let timeout = Duration::from_millis(options.timeout_ms);
            let of: Arc<dyn Discovery> =
                Arc::new(ZooKeeper::new(url, service, &options.method, timeout));
            of
        });
        Ok(Self {
            frame: frame.into(),
            varying: options.varying.clone().map(|varying| (Arc::new(head), varying)),
            scratch: Vec::new(),
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
        match &self.varying {
            None => out.extend_from_slice(&self.frame),
            Some((head, varying)) => {
                let arguments = varying.of_call(number, &mut self.scratch);
                if arguments.is_none_or(|arguments| head.put(&arguments, out).is_err()) {
                    out.truncate(begin);
                }
            }
        }
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

    fn requests_max(&self) -> Option<u64> {
        self.varying.as_ref().and_then(|(_, varying)| varying.requests_max())
    }

    fn operations(&self) -> Vec<String> {
        vec![self.operation.clone()]
    }
}
