//! Tables of PostgreSQL's catalog, as far as clients look at them.

use crate::catalog::{Catalog, FIRST_OID, IndexDef, TableDef};
use crate::types::{DataType, Datum, Row};

/// A table of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemTable {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, DataType)],
    rows: Rows,
}

/// The things that its rows describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    None,
    Namespaces,
    Relations,
    Attributes,
    Defaults,
    Indexes,
    Constraints,
    Types,
    Databases,
    Roles,
    AccessMethods,
    Settings,
    Tables,
    IndexNames,
    SchemaTables,
    SchemaColumns,
    Schemata,
}

use DataType::{Array, Bool, Int2, Int4, Name, Oid, Text};

const CATALOG_SCHEMA: i64 = 11;
const PUBLIC_SCHEMA: i64 = 2200;
const INFORMATION_SCHEMA: i64 = 13_000;
const OWNER: i64 = 10;
const HEAP: i64 = 2;
const BTREE: i64 = 403;

/// The table with a name, in `pg_catalog` or in `information_schema`.
pub(crate) fn find(schema: &str, name: &str) -> Option<SystemTable> {
    let of = |tables: &[SystemTable]| tables.iter().find(|table| table.name == name).copied();
    match schema {
        "pg_catalog" => of(PG_CATALOG),
        "information_schema" => of(SCHEMA),
        _ => None,
    }
}

macro_rules! system_tables {
    ($($name:literal: $rows:ident { $($column:ident $ty:ident),* $(,)? })*) => {
        &[$(SystemTable {
            name: $name,
            columns: &[$((stringify!($column), $ty)),*],
            rows: Rows::$rows,
        }),*]
    };
}

const PG_CATALOG: &[SystemTable] = system_tables! {
    "pg_namespace": Namespaces { oid Oid, nspname Name, nspowner Oid, nspacl Array }
    "pg_class": Relations {
        oid Oid, relname Name, relnamespace Oid, reltype Oid, reloftype Oid, relowner Oid,
        relam Oid, relfilenode Oid, reltablespace Oid, relpages Int4, reltuples Int4,
        relallvisible Int4, reltoastrelid Oid, relhasindex Bool, relisshared Bool,
        relpersistence Text, relkind Text, relnatts Int2, relchecks Int2, relhasrules Bool,
        relhastriggers Bool, relhassubclass Bool, relrowsecurity Bool, relforcerowsecurity Bool,
        relispopulated Bool, relreplident Text, relispartition Bool, relacl Array,
        reloptions Array, relpartbound Text,
    }
    "pg_attribute": Attributes {
        attrelid Oid, attname Name, atttypid Oid, attstattarget Int4, attlen Int2, attnum Int2,
        attndims Int4, atttypmod Int4, attnotnull Bool, atthasdef Bool, attidentity Text,
        attgenerated Text, attisdropped Bool, attcollation Oid, attstorage Text,
        attcompression Text, attacl Text, attfdwoptions Text,
    }
    "pg_attrdef": Defaults { oid Oid, adrelid Oid, adnum Int2, adbin Text }
    "pg_index": Indexes {
        indexrelid Oid, indrelid Oid, indnatts Int2, indnkeyatts Int2, indisunique Bool,
        indnullsnotdistinct Bool, indisprimary Bool, indisexclusion Bool, indimmediate Bool,
        indisclustered Bool, indisvalid Bool, indisready Bool, indislive Bool, indisreplident Bool,
        indkey Text, indpred Text, indexprs Text,
    }
    "pg_constraint": Constraints {
        oid Oid, conname Name, connamespace Oid, contype Text, condeferrable Bool,
        condeferred Bool, convalidated Bool, conrelid Oid, contypid Oid, conindid Oid,
        conparentid Oid, confrelid Oid, conkey Array, confkey Array, confupdtype Text,
        confdeltype Text,
    }
    "pg_type": Types {
        oid Oid, typname Name, typnamespace Oid, typowner Oid, typlen Int2, typtype Text,
        typcategory Text, typnotnull Bool, typbasetype Oid, typtypmod Int4, typelem Oid,
        typarray Oid, typrelid Oid, typcollation Oid, typdelim Text, typinput Oid, typreceive Oid,
        typdefault Text,
    }
    "pg_database": Databases {
        oid Oid, datname Name, datdba Oid, encoding Int4, datcollate Name, datctype Name,
        datistemplate Bool, datallowconn Bool, dattablespace Oid, datacl Array,
        datlocprovider Text, daticulocale Text,
    }
    "pg_roles": Roles { oid Oid, rolname Name, rolsuper Bool, rolcanlogin Bool }
    "pg_user": Roles { oid Oid, usename Name, usesuper Bool, usecanlogin Bool }
    "pg_am": AccessMethods { oid Oid, amname Name, amtype Text }
    "pg_settings": Settings { name Text, setting Text }
    "pg_tables": Tables { schemaname Name, tablename Name, tableowner Name }
    "pg_indexes": IndexNames { schemaname Name, tablename Name, indexname Name, indexdef Text }
    "pg_collation": None { oid Oid, collname Name, collnamespace Oid }
    "pg_description": None { objoid Oid, classoid Oid, objsubid Int4, description Text }
    "pg_inherits": None {
        inhrelid Oid, inhparent Oid, inhseqno Int4, inhdetachpending Bool,
    }
    "pg_partitioned_table": None { partrelid Oid, partdefid Oid, partstrat Text }
    "pg_policy": None {
        oid Oid, polname Name, polrelid Oid, polcmd Text, polpermissive Bool, polroles Array,
        polqual Text, polwithcheck Text,
    }
    "pg_statistic_ext": None {
        oid Oid, stxrelid Oid, stxname Name, stxnamespace Oid, stxkind Array, stxkeys Text,
        stxstattarget Int4,
    }
    "pg_publication": None { oid Oid, pubname Name, puballtables Bool }
    "pg_publication_rel": None { oid Oid, prpubid Oid, prrelid Oid, prqual Text, prattrs Array }
    "pg_publication_namespace": None { oid Oid, pnpubid Oid, pnnspid Oid }
    "pg_trigger": None {
        oid Oid, tgrelid Oid, tgname Name, tgenabled Text, tgisinternal Bool, tgparentid Oid,
        tgconstraint Oid,
    }
    "pg_rewrite": None { oid Oid, rulename Name, ev_class Oid, ev_enabled Text, ev_type Text }
    "pg_foreign_table": None { ftrelid Oid, ftserver Oid, ftoptions Text }
    "pg_foreign_server": None { oid Oid, srvname Name }
    "pg_enum": None { oid Oid, enumtypid Oid, enumsortorder Int4, enumlabel Name }
    "pg_range": None { rngtypid Oid, rngsubtype Oid }
    "pg_proc": None { oid Oid, proname Name, pronamespace Oid }
    "pg_sequence": None { seqrelid Oid, seqtypid Oid }
    "pg_tablespace": None { oid Oid, spcname Name }
    "pg_extension": None { oid Oid, extname Name, extnamespace Oid, extversion Text }
    "pg_depend": None {
        classid Oid, objid Oid, objsubid Int4, refclassid Oid, refobjid Oid, refobjsubid Int4,
        deptype Text,
    }
};

const SCHEMA: &[SystemTable] = system_tables! {
    "tables": SchemaTables {
        table_catalog Name, table_schema Name, table_name Name, table_type Text,
    }
    "columns": SchemaColumns {
        table_catalog Name, table_schema Name, table_name Name, column_name Name,
        ordinal_position Int4, column_default Text, is_nullable Text, data_type Text,
        character_maximum_length Int4, numeric_precision Int4, numeric_scale Int4, udt_name Name,
    }
    "schemata": Schemata { catalog_name Name, schema_name Name, schema_owner Name }
};

/// Facts about the session that rows depend on.
pub(crate) struct Surroundings<'a> {
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    pub(crate) settings: Vec<(String, String)>,
}

/// Columns of a row that are named; all others are null.
struct RowBuilder<'a> {
    table: &'a SystemTable,
    row: Row,
}

impl<'a> RowBuilder<'a> {
    fn new(table: &'a SystemTable) -> Self {
        let empty = |ty: &DataType| match ty {
            Bool => Datum::Bool(false),
            Int2 | Int4 | Oid => Datum::Int(0),
            _ => Datum::Null,
        };
        Self { table, row: table.columns.iter().map(|(_, ty)| empty(ty)).collect() }
    }

    fn set(mut self, name: &str, value: Datum) -> Self {
        if let Some(at) = self.table.columns.iter().position(|(column, _)| *column == name) {
            self.row[at] = value;
        }
        self
    }

    fn text(self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, Datum::Text(value.into()))
    }

    fn int(self, name: &str, value: impl Into<i64>) -> Self {
        self.set(name, Datum::Int(value.into()))
    }

    fn bool(self, name: &str, value: bool) -> Self {
        self.set(name, Datum::Bool(value))
    }
}

impl SystemTable {
    /// Its rows.
    pub(crate) fn rows(&self, catalog: &Catalog, around: &Surroundings<'_>) -> Vec<Row> {
        let new = || RowBuilder::new(self);
        let each_index = |each: &dyn Fn(&TableDef, &IndexDef) -> Option<Row>| -> Vec<Row> {
            let of = |table: &TableDef| -> Vec<Row> {
                table.all_indexes().filter_map(|index| each(table, index)).collect()
            };
            catalog.tables().flat_map(|table| of(table)).collect()
        };
        match self.rows {
            Rows::None => Vec::new(),
            Rows::Namespaces => SCHEMAS
                .map(|(oid, name)| {
                    new().int("oid", oid).text("nspname", name).int("nspowner", OWNER).row
                })
                .to_vec(),
            Rows::Relations => self.relations(catalog),
            Rows::Attributes => self.attributes(catalog),
            Rows::Defaults => self.defaults(catalog),
            Rows::Indexes => each_index(&|table, index| Some(self.index(table, index))),
            Rows::Constraints => each_index(&|table, index| self.constraint(table, index)),
            Rows::Types => self.types(),
            Rows::Databases => vec![
                new()
                    .int("oid", 1)
                    .text("datname", around.database)
                    .int("datdba", OWNER)
                    .int("encoding", UTF8)
                    .text("datcollate", "C")
                    .text("datctype", "C")
                    .text("datlocprovider", "c")
                    .bool("datallowconn", true)
                    .row,
            ],
            Rows::Roles => vec![
                new()
                    .int("oid", OWNER)
                    .text("rolname", around.user)
                    .text("usename", around.user)
                    .bool("rolsuper", true)
                    .bool("usesuper", true)
                    .bool("rolcanlogin", true)
                    .bool("usecanlogin", true)
                    .row,
            ],
            Rows::AccessMethods => [(HEAP, "heap", "t"), (BTREE, "btree", "i")]
                .map(|(oid, name, kind)| {
                    new().int("oid", oid).text("amname", name).text("amtype", kind).row
                })
                .to_vec(),
            Rows::Settings => around
                .settings
                .iter()
                .map(|(name, value)| new().text("name", name).text("setting", value).row)
                .collect(),
            Rows::Tables => catalog
                .tables()
                .map(|table| {
                    new()
                        .text("schemaname", "public")
                        .text("tablename", &table.name)
                        .text("tableowner", around.user)
                        .row
                })
                .collect(),
            Rows::IndexNames => each_index(&|table, index| {
                let row = new().text("schemaname", "public").text("tablename", &table.name);
                let row = row.text("indexname", &index.name);
                Some(row.text("indexdef", index_definition(table, index)).row)
            }),
            Rows::SchemaTables => catalog
                .tables()
                .map(|table| {
                    let row = new().text("table_catalog", around.database);
                    let row = row.text("table_schema", "public").text("table_name", &table.name);
                    row.text("table_type", "BASE TABLE").row
                })
                .collect(),
            Rows::SchemaColumns => self.columns(catalog, around),
            Rows::Schemata => SCHEMAS
                .map(|(_, name)| {
                    let row = new().text("catalog_name", around.database);
                    row.text("schema_name", name).text("schema_owner", around.user).row
                })
                .to_vec(),
        }
    }

    fn relations(&self, catalog: &Catalog) -> Vec<Row> {
        let new = |oid: u32, name: &str, columns: usize| {
            RowBuilder::new(self)
                .int("oid", oid)
                .text("relname", name)
                .int("relnamespace", PUBLIC_SCHEMA)
                .int("relowner", OWNER)
                .int("relfilenode", oid)
                .int("reltuples", -1)
                .text("relpersistence", "p")
                .int("relnatts", columns as i64)
                .bool("relispopulated", true)
        };
        let mut rows = Vec::new();
        for table in catalog.tables() {
            let row = new(table.oid, &table.name, table.columns.len())
                .int("relam", HEAP)
                .bool("relhasindex", table.all_indexes().next().is_some())
                .text("relkind", "r")
                .text("relreplident", "d");
            rows.push(row.row);
            rows.extend(table.all_indexes().map(|index| {
                new(index.oid, &index.name, index.columns.len())
                    .int("relam", BTREE)
                    .text("relkind", "i")
                    .text("relreplident", "n")
                    .row
            }));
        }
        rows
    }

    fn attributes(&self, catalog: &Catalog) -> Vec<Row> {
        let of_table = |table: &TableDef| -> Vec<Row> {
            let of = |(place, column): (i64, &crate::catalog::ColumnDef)| {
                RowBuilder::new(self)
                    .int("attrelid", table.oid)
                    .text("attname", &column.name)
                    .int("atttypid", column.ty.oid())
                    .int("attstattarget", -1)
                    .int("attlen", column.ty.length())
                    .int("attnum", place)
                    .int("atttypmod", column.ty.modifier())
                    .bool("attnotnull", column.not_null)
                    .bool("atthasdef", column.default.is_some())
                    .text("attidentity", "")
                    .text("attgenerated", "")
                    .text("attstorage", "p")
                    .text("attcompression", "")
                    .row
            };
            (1..).zip(&table.columns).map(of).collect()
        };
        catalog.tables().flat_map(|table| of_table(table)).collect()
    }

    fn defaults(&self, catalog: &Catalog) -> Vec<Row> {
        let mut rows = Vec::new();
        for table in catalog.tables() {
            for (place, column) in (1i64..).zip(&table.columns) {
                let Some(default) = &column.default else { continue };
                let row = RowBuilder::new(self).int("adrelid", table.oid).int("adnum", place);
                rows.push(row.text("adbin", default).row);
            }
        }
        rows
    }

    fn index(&self, table: &TableDef, index: &IndexDef) -> Row {
        let columns = index.columns.len() as i64;
        let places = index.columns.iter().map(|column| (column + 1).to_string());
        RowBuilder::new(self)
            .int("indexrelid", index.oid)
            .int("indrelid", table.oid)
            .int("indnatts", columns)
            .int("indnkeyatts", columns)
            .bool("indisunique", index.unique)
            .bool("indisprimary", is_primary(table, index))
            .bool("indimmediate", true)
            .bool("indisvalid", true)
            .bool("indisready", true)
            .bool("indislive", true)
            .text("indkey", places.collect::<Vec<_>>().join(" "))
            .row
    }

    fn constraint(&self, table: &TableDef, index: &IndexDef) -> Option<Row> {
        let kind = match is_primary(table, index) {
            true => "p",
            false => "u",
        };
        index.is_constraint.then(|| {
            let places = index.columns.iter().map(|column| (column + 1).to_string());
            RowBuilder::new(self)
                // Constraint and index have one number.
                .int("oid", index.oid)
                .text("conname", &index.name)
                .int("connamespace", PUBLIC_SCHEMA)
                .text("contype", kind)
                .bool("convalidated", true)
                .int("conrelid", table.oid)
                .int("conindid", index.oid)
                .text("conkey", format!("{{{}}}", places.collect::<Vec<_>>().join(",")))
                .row
        })
    }

    fn types(&self) -> Vec<Row> {
        let of = |(name, ty, category): (&str, DataType, &str)| {
            RowBuilder::new(self)
                .int("oid", ty.oid())
                .text("typname", name)
                .int("typnamespace", CATALOG_SCHEMA)
                .int("typowner", OWNER)
                .int("typlen", ty.length())
                .text("typtype", "b")
                .text("typcategory", category)
                .int("typtypmod", -1)
                .text("typdelim", ",")
                .row
        };
        TYPES.iter().copied().map(of).collect()
    }

    fn columns(&self, catalog: &Catalog, around: &Surroundings<'_>) -> Vec<Row> {
        let mut rows = Vec::new();
        for table in catalog.tables() {
            for (place, column) in (1i64..).zip(&table.columns) {
                let mut row = RowBuilder::new(self)
                    .text("table_catalog", around.database)
                    .text("table_schema", "public")
                    .text("table_name", &table.name)
                    .text("column_name", &column.name)
                    .int("ordinal_position", place)
                    .text("is_nullable", if column.not_null { "NO" } else { "YES" })
                    .text("data_type", column.ty.base_name())
                    .set("character_maximum_length", Datum::Null)
                    .set("numeric_precision", Datum::Null)
                    .set("numeric_scale", Datum::Null)
                    .text("udt_name", type_name(column.ty));
                if let Some(default) = &column.default {
                    row = row.text("column_default", default);
                }
                row = match column.ty {
                    DataType::Varchar(Some(length)) | DataType::Char(length) => {
                        row.int("character_maximum_length", length)
                    }
                    DataType::Numeric(Some((precision, scale))) => {
                        row.int("numeric_precision", precision).int("numeric_scale", scale)
                    }
                    _ => row,
                };
                rows.push(row.row);
            }
        }
        rows
    }
}

/// The number of UTF-8 among encodings.
const UTF8: i64 = 6;

const SCHEMAS: [(i64, &str); 3] = [
    (CATALOG_SCHEMA, "pg_catalog"),
    (PUBLIC_SCHEMA, "public"),
    (INFORMATION_SCHEMA, "information_schema"),
];

/// The name of a schema with a number.
pub(crate) fn namespace(oid: i64) -> &'static str {
    SCHEMAS.iter().find(|(other, _)| *other == oid).map_or("-", |(_, name)| name)
}

const TYPES: [(&str, DataType, &str); 16] = [
    ("bool", DataType::Bool, "B"),
    ("bytea", DataType::Bytea, "U"),
    ("name", DataType::Name, "S"),
    ("int8", DataType::Int8, "N"),
    ("int2", DataType::Int2, "N"),
    ("int4", DataType::Int4, "N"),
    ("text", DataType::Text, "S"),
    ("oid", DataType::Oid, "N"),
    ("float4", DataType::Real, "N"),
    ("float8", DataType::Double, "N"),
    ("bpchar", DataType::Char(0), "S"),
    ("varchar", DataType::Varchar(None), "S"),
    ("date", DataType::Date, "D"),
    ("timestamp", DataType::Timestamp, "D"),
    ("timestamptz", DataType::Timestamptz, "D"),
    ("numeric", DataType::Numeric(None), "N"),
];

fn type_name(ty: DataType) -> &'static str {
    TYPES.iter().find(|(_, other, _)| other.oid() == ty.oid()).map_or("text", |(name, ..)| name)
}

fn is_primary(table: &TableDef, index: &IndexDef) -> bool {
    table.primary.as_ref().is_some_and(|primary| primary.oid == index.oid)
}

/// The name of a type, of whose number and modifier the catalog speaks.
pub(crate) fn format_type(oid: u32, modifier: i32) -> String {
    let Some(ty) = DataType::from_oid(oid) else { return "???".to_owned() };
    let detail = modifier - 4;
    let ty = match ty {
        DataType::Varchar(_) if detail >= 0 => DataType::Varchar(Some(detail as u32)),
        DataType::Char(_) if detail >= 0 => DataType::Char(detail as u32),
        DataType::Numeric(_) if detail >= 0 => {
            DataType::Numeric(Some(((detail >> 16) as u8, detail as u8)))
        }
        ty => ty,
    };
    ty.to_string()
}

/// A name as it stands in SQL.
pub(crate) fn quote(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn column_list(table: &TableDef, index: &IndexDef) -> String {
    let names = index.columns.iter().map(|&column| quote(&table.columns[column].name));
    names.collect::<Vec<_>>().join(", ")
}

/// The statement that makes an index.
pub(crate) fn index_definition(table: &TableDef, index: &IndexDef) -> String {
    format!(
        "CREATE {}INDEX {} ON public.{} USING btree ({})",
        if index.unique { "UNIQUE " } else { "" },
        quote(&index.name),
        quote(&table.name),
        column_list(table, index)
    )
}

/// The clause that makes a constraint.
pub(crate) fn constraint_definition(table: &TableDef, index: &IndexDef) -> String {
    let kind = if is_primary(table, index) { "PRIMARY KEY" } else { "UNIQUE" };
    format!("{kind} ({})", column_list(table, index))
}

/// The number of a table or an index in PostgreSQL's catalog.
pub(crate) fn oid_of(catalog: &Catalog, name: &str) -> Option<u32> {
    let plain = name.strip_prefix("public.").unwrap_or(name).trim_matches('"');
    let table = catalog.find(plain).map(|table| table.oid);
    table.or_else(|| catalog.index(plain).map(|(_, index)| index.oid)).or_else(|| {
        let plain = plain.strip_prefix("pg_catalog.").unwrap_or(plain);
        let at = PG_CATALOG.iter().position(|table| table.name == plain)?;
        Some(FIRST_OID / 2 + at as u32)
    })
}

/// The name of a table or an index with a number.
pub(crate) fn name_of(catalog: &Catalog, oid: u32) -> Option<&str> {
    let mut all = catalog.tables().flat_map(|table| {
        let indexes = table.all_indexes().map(|index| (index.oid, &*index.name));
        [(table.oid, &*table.name)].into_iter().chain(indexes)
    });
    all.find(|(other, _)| *other == oid).map(|(_, name)| name)
}
