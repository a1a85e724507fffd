//! The files of the page, built into the program and compressed once.

use std::io::{self, Write as _};
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use meter::report::uplot;

/// A file of the page.
#[derive(Debug)]
pub struct Asset {
    path: &'static str,
    /// The media type of the file.
    pub kind: &'static str,
    parts: &'static [&'static str],
    plain: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
}

impl Asset {
    const fn new(path: &'static str, kind: &'static str, parts: &'static [&'static str]) -> Self {
        Self { path, kind, parts, plain: OnceLock::new(), gzip: OnceLock::new() }
    }

    /// The file as it is.
    pub fn plain(&self) -> Bytes {
        self.plain.get_or_init(|| self.parts.concat().into()).clone()
    }

    /// The file as gzip.
    pub fn gzip(&self) -> Bytes {
        // Writing to memory can't fail; a page without compression would still be one.
        self.gzip.get_or_init(|| gzip(&self.plain()).unwrap_or_default()).clone()
    }
}

/// A text as gzip.
///
/// # Errors
/// Only those of memory, which has none.
fn gzip(text: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text)?;
    Ok(encoder.finish()?.into())
}

static ASSETS: [Asset; 6] = [
    Asset::new("/", "text/html; charset=utf-8", &[include_str!("page.html")]),
    Asset::new("/page.css", "text/css; charset=utf-8", &[include_str!("page.css")]),
    Asset::new("/page.js", "text/javascript; charset=utf-8", &[include_str!("page.js")]),
    Asset::new("/icon.svg", "image/svg+xml", &[include_str!("icon.svg")]),
    Asset::new("/uplot.css", "text/css; charset=utf-8", &[uplot::STYLE]),
    Asset::new(
        "/uplot.js",
        "text/javascript; charset=utf-8",
        &["/*!\n", uplot::LICENCE, "*/\n", uplot::SCRIPT],
    ),
];

/// The file at a path.
pub fn at(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::ASSETS;

    #[test]
    fn the_whole_page_is_small_and_asks_nobody_else() {
        let size: usize = ASSETS.iter().map(|asset| asset.gzip().len()).sum();
        assert!((1..=120 << 10).contains(&size), "{size} bytes");
        for asset in ASSETS.iter().filter(|asset| !asset.path.starts_with("/uplot")) {
            let text = String::from_utf8(asset.plain().to_vec()).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for word in ["http://", "https://", "innerHTML", "outerHTML", "document.write", "eval("]
            {
                assert!(!text.contains(word), "{}: {word}", asset.path);
            }
        }
        let html = super::at("/").unwrap().plain();
        let html = String::from_utf8(html.to_vec()).unwrap();
        for inline in ["<script>", "<style", " style=", " onclick", "javascript:"] {
            assert!(!html.contains(inline), "{inline}: the policy forbids it");
        }
    }
}
