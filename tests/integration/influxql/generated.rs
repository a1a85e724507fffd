//! Data and queries made by chance, from fixed seeds.
