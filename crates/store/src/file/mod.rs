//! Parquet files: writing, reading, and what is known of them.
