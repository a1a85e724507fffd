//! A call as bytes: what is the same in all calls of a load, with the arguments of one.

use serde_json::Value as Json;
use wire::dubbo::{
    Arguments, GENERIC_DESCRIPTOR, GENERIC_METHOD, RequestBody, descriptor_of,
    put_generic_arguments, put_request,
};
use wire::hessian2::{Beans, Encoder};

use super::registry::{NO_VERSION, Service};
use super::settings::{self, CallOptions, DubboError};

/// What is the same in all calls.
#[derive(Debug)]
pub struct CallHead {
    service: Service,
    method: String,
    types: Vec<String>,
    attachments: Vec<(String, String)>,
    is_generic: bool,
}

impl CallHead {
    /// That of calls of a service.
    ///
    /// # Errors
    /// The types can't be told from one another.
    pub fn new(service: &Service, options: &CallOptions) -> Result<Self, DubboError> {
        let interface = service.interface.as_str();
        let timeout = options.timeout_ms.to_string();
        let mut attachments =
            vec![("path", interface), ("interface", interface), ("timeout", &*timeout)];
        attachments.extend(service.version.as_deref().map(|version| ("version", version)));
        attachments.extend(service.group.as_deref().map(|group| ("group", group)));
        if options.is_generic {
            attachments.push(("generic", "true"));
        }
        attachments.extend(options.attachments.iter().map(|(name, value)| (&**name, &**value)));
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(Self {
            service: service.clone(),
            method: options.method.clone(),
            types: options.types()?.into_iter().map(str::to_owned).collect(),
            attachments: attachments.into_iter().map(owned).collect(),
            is_generic: options.is_generic,
        })
    }

    /// Appends the frame of a call, with 0 for its number.
    ///
    /// # Errors
    /// The arguments are not values of their types, or too long. What was appended is no frame.
    pub fn put(&self, arguments: &Json, out: &mut Vec<u8>) -> Result<(), DubboError> {
        let types: Vec<_> = self.types.iter().map(String::as_str).collect();
        let beans = if self.is_generic { Beans::Maps } else { Beans::Objects };
        let values = settings::values(arguments, &types, beans)?;
        let attachments: Vec<_> =
            self.attachments.iter().map(|(name, value)| (&**name, &**value)).collect();
        let (mut encoder, mut generic) = (Encoder::default(), Vec::new());
        let own_descriptor = descriptor_of(types.iter().copied());
        let (method, descriptor, arguments) = if self.is_generic {
            // What is sent as a map has the raw type for its name.
            let raw: Vec<_> = types.iter().map(|name| settings::raw_type(name)).collect();
            let raw: Vec<_> = raw.iter().map(String::as_str).collect();
            put_generic_arguments(&mut generic, &mut encoder, &self.method, &raw, &values);
            (GENERIC_METHOD, GENERIC_DESCRIPTOR, Arguments::Encoded(&generic))
        } else {
            (&*self.method, &*own_descriptor, Arguments::Values(&values))
        };
        let body = RequestBody {
            path: &self.service.interface,
            service_version: self.service.version.as_deref().unwrap_or(NO_VERSION),
            method,
            descriptor,
            arguments,
            attachments: &attachments,
        };
        settings::check_length(put_request(out, &mut encoder, 0, true, &body))
    }
}
