pub(crate) const HEADER_LEN: usize = 88;
