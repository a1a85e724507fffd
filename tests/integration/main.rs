//! Weir as its users meet it: real servers and clients, fakes that misbehave, and faults of the
//! disk and the process. Each test is named for what the user sees. A program that is missing fails
//! its test; `make test` installs what Debian has.

mod accounts;
mod answers;
mod backend_faults;
mod catalogue;
mod clients;
mod command_line;
mod connections;
mod console;
mod debug_vars;
mod disk_faults;
mod drivers;
mod embedded;
mod failover;
mod first_loads;
mod hostile_clients;
mod hung_disk;
mod import_export;
mod influxql;
mod influxql_parse;
mod isolation;
mod kill;
mod leaving;
mod listen;
mod load;
mod logins;
mod memory;
mod odd_lines;
mod operation;
mod other_backends;
mod packaging;
mod poison;
mod postgres;
mod queries;
mod redis;
mod scene;
mod silent_backend;
mod space;
mod stamp;
mod statements;
mod store_files;
mod tls;
mod udp;
mod users;
mod watched;
