//! `tombolo sql`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use tombolo::PodSpec;

pub(super) const SQL: &str = "\
Serve SQL by PostgreSQL's protocol, as one host of a database.

psql, pgbench and drivers for PostgreSQL connect to it. `tombolo db create --sql` makes the database. Its \
hosts begin together: start this command once for each of them, with the same --pod and --log. When one \
dies or leaves, the others go on, and this command brings it back. Every host serves every table. All \
transactions are serializable, changes of tables included.

A statement outside of a transaction that conflicts with others is run again. In a transaction a conflict \
is an error with the code 40001: roll back, and run the transaction again. A commit is acknowledged when \
it is in the files of all hosts. When all hosts have ended, they begin anew with all that was acknowledged. \
With the engines `tigon` and `ds2pl` a death ends the database, until `tombolo db recover`.

Without --user and --password-file every user is believed, and --listen has to be an address of loopback. \
Connections are not encrypted.";

pub(super) const SQL_EXAMPLES: &str = "\
Examples:
  tombolo db create /dev/shm/sql --sql --hosts 1 --log /var/tmp/sql
  tombolo sql --pod /dev/shm/sql --log /var/tmp/sql --listen 127.0.0.1:5432
  psql -h 127.0.0.1 -c 'CREATE TABLE t (id int PRIMARY KEY, name text)'
  tombolo sql --pod /dev/shm/sql --log /var/tmp/sql --listen 0.0.0.0:5432 --user ada --password-file pw";

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// The pod: a path, or the memory of a device.
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: PodSpec,
    /// The directory with checkpoint and logs, which all hosts share.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: PathBuf,
    /// Where clients connect to.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5432")]
    pub(crate) listen: SocketAddr,
    /// The user that clients have to be.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// A file with the user's password, which clients prove to know by SCRAM-SHA-256.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Connections at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = RangedU64ValueParser::<u16>::new().range(1..=10_000))]
    pub(crate) max_connections: u16,
}
