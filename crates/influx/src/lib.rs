//! influx
