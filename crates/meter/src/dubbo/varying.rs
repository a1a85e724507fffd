//! Arguments that are others in each call: JSON with gaps, which are filled as those of HTTP are.

use serde_json::Value as Json;

use crate::chance::Chance;
use crate::http::RequestError;
use crate::http::data::Data;
use crate::http::text::{Filling, Names, RequestPart, Text};

/// Arguments with gaps, and what these are filled with.
#[derive(Debug)]
pub struct VaryingArguments {
    text: Text,
    data: Vec<Data>,
    seed: u64,
}

impl VaryingArguments {
    /// Reads arguments; nothing where they have no gap.
    ///
    /// # Errors
    /// A gap does not end, or is of nothing that there is.
    pub fn new(text: &str, data: Vec<Data>, seed: u64) -> Result<Option<Self>, RequestError> {
        let names = Names { data: &data, taken: &[], literal: false };
        let text = Text::new(text.as_bytes(), names)?.within_json();
        Ok((!text.is_plain()).then_some(Self { text, data, seed }))
    }

    /// The arguments of a call; nothing where they are not JSON. `scratch` holds their text.
    pub fn of_call(&self, number: u64, scratch: &mut Vec<u8>) -> Option<Json> {
        scratch.clear();
        let chance = Chance::of(self.seed, number);
        let (data, seed) = (&*self.data, self.seed);
        let mut filling = Filling { number, seed, chance, data, taken: &[] };
        self.text.fill(RequestPart::Body, &mut filling, scratch);
        serde_json::from_slice(scratch).ok()
    }

    /// How many calls there are rows for; nothing where rows come again.
    pub fn requests_max(&self) -> Option<u64> {
        self.data.iter().filter_map(Data::requests_max).min()
    }
}
