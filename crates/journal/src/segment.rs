pub(crate) const HEADER_LEN: u64 = 4096;
