//! Typed keys sort as their values do, and catalogs read back.

use std::cmp::Ordering;

use proptest::prelude::*;
use tombolo_database::Partitioning;
use tombolo_database::schema::{Catalog, Column, ColumnType, KeyPart, SchemaError, Table, Value};

const KINDS: [ColumnType; 8] = [
    ColumnType::Bool,
    ColumnType::U32,
    ColumnType::I32,
    ColumnType::I64,
    ColumnType::Decimal { scale: 2 },
    ColumnType::Text { most: 9 },
    ColumnType::Bytes { most: 9 },
    ColumnType::Timestamp,
];

fn value(kind: ColumnType, nullable: bool) -> BoxedStrategy<Value> {
    let value = match kind {
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::U32 => any::<u32>().prop_map(Value::U32).boxed(),
        ColumnType::I32 => any::<i32>().prop_map(Value::I32).boxed(),
        ColumnType::I64 => any::<i64>().prop_map(Value::I64).boxed(),
        ColumnType::Decimal { .. } => (-3_i64..3).prop_map(Value::Decimal).boxed(),
        ColumnType::Text { .. } => "[a\\x00\u{7f}é]{0,4}".prop_map(Value::Text).boxed(),
        ColumnType::Bytes { .. } => {
            let byte = prop_oneof![Just(0_u8), Just(1), Just(254), Just(255)];
            prop::collection::vec(byte, 0..5).prop_map(Value::Bytes).boxed()
        }
        ColumnType::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
    };
    if nullable { prop_oneof![1 => Just(Value::Null), 4 => value].boxed() } else { value }
}

/// Some columns, of which the first ones are in the primary key, and whether those descend.
fn table() -> impl Strategy<Value = Table> {
    let column = (prop::sample::select(&KINDS[..]), any::<bool>(), any::<bool>());
    (prop::collection::vec(column, 1..5), any::<prop::sample::Index>()).prop_map(|(kinds, keys)| {
        let in_key = 1 + keys.index(kinds.len());
        let columns = kinds.iter().enumerate().map(|(n, &(kind, nullable, _))| {
            let column = Column::new(&format!("c{n}"), kind);
            if nullable && n >= in_key { column.nullable() } else { column }
        });
        let columns: Vec<_> = columns.collect();
        let mut table = Table::new("t", columns, &["c0"]).unwrap();
        let part = |n: usize| KeyPart { column: n as u16, descending: kinds[n].2 };
        table.primary_key = (0..in_key).map(part).collect();
        let names: Vec<String> = (0..kinds.len()).rev().map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = table.with_index("i", &names, true).unwrap();
        for part in &mut table.indexes[0].parts {
            part.descending = kinds[usize::from(part.column)].2;
        }
        table
    })
}

fn rows() -> impl Strategy<Value = (Table, Vec<Value>, Vec<Value>)> {
    table().prop_flat_map(|table| {
        let row = |table: &Table| {
            table
                .columns
                .iter()
                .map(|column| value(column.kind, column.nullable))
                .collect::<Vec<_>>()
        };
        let (one, two) = (row(&table), row(&table));
        (Just(table), one, two)
    })
}

fn compare(parts: &[KeyPart], one: &[Value], two: &[Value]) -> Ordering {
    let of_part = |part: &KeyPart| {
        let column = usize::from(part.column);
        let order = one[column].cmp(&two[column]);
        if part.descending { order.reverse() } else { order }
    };
    parts.iter().map(of_part).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_sort_as_values_do((table, one, two) in rows()) {
        let (key, row) = table.encode(&one).unwrap();
        prop_assert_eq!(table.decode(&key, &row).unwrap(), one.clone());
        let (other, _) = table.encode(&two).unwrap();
        let expected = compare(&table.primary_key, &one, &two);
        prop_assert_eq!(key.cmp(&other), expected, "{:?} {:?}", key, other);
        prop_assert!(expected.is_eq() || !key.starts_with(&other), "no key begins another one");
        let spec = Catalog::new(vec![table.clone()]).unwrap().specs()[0];
        prop_assert!(key.len() <= usize::from(spec.key_bytes) && row.len() <= spec.row_bytes as usize);
        let in_index = |row: &[Value]| {
            let columns = table.indexes[0].parts.iter().map(|part| row[usize::from(part.column)].clone());
            table.key_prefix(Some(0), &columns.collect::<Vec<_>>()).unwrap()
        };
        let expected = compare(&table.indexes[0].parts, &one, &two);
        prop_assert_eq!(in_index(&one).cmp(&in_index(&two)), expected);
        for values in 0..=table.primary_key.len() {
            let prefix = table.primary_key[..values].iter().map(|part| one[usize::from(part.column)].clone());
            let prefix = table.key_prefix(None, &prefix.collect::<Vec<_>>()).unwrap();
            prop_assert!(key.starts_with(&prefix));
        }
    }

    #[test]
    fn a_catalog_reads_back_and_is_refused_when_it_is_damaged(
        tables in prop::collection::vec(table(), 0..4), at in any::<prop::sample::Index>()
    ) {
        let name = |(n, table): (usize, Table)| Table { name: format!("t{n}"), ..table };
        let catalog = Catalog::new(tables.into_iter().enumerate().map(name).collect()).unwrap();
        let mut bytes = catalog.encode(1 << 16).unwrap();
        let length = bytes.len();
        prop_assert!(catalog.encode(length - 1).is_err());
        bytes.extend([7; 9]);
        prop_assert_eq!(&Catalog::decode(&bytes).unwrap(), &catalog);
        bytes[at.index(length)] ^= 4;
        prop_assert!(Catalog::decode(&bytes).is_err());
        prop_assert!(Catalog::decode(&bytes[..length - 1]).is_err());
    }
}

fn accounts() -> Table {
    let columns = vec![
        Column::new("branch", ColumnType::U32),
        Column::new("number", ColumnType::I64),
        Column::new("owner", ColumnType::Text { most: 20 }),
        Column::new("limit", ColumnType::Decimal { scale: 2 }).nullable(),
    ];
    Table::new("accounts", columns, &["branch", "number"]).unwrap()
}

#[test]
fn tables_and_indexes_are_numbered_and_divided() {
    let table = accounts()
        .partitioned(Partitioning::Leading { per_partition: 10 })
        .with_index("by_owner", &["owner"], false)
        .unwrap()
        .with_index("by_branch", &["branch", "limit"], true)
        .unwrap();
    let catalog = Catalog::new(vec![table, Table { name: "more".into(), ..accounts() }]).unwrap();
    assert_eq!(catalog.table("more").unwrap().0.0, 3);
    assert_eq!(catalog.table("less"), Err(SchemaError::NoTable("less".into())));
    let specs = catalog.specs();
    assert_eq!(specs.len(), 4);
    let key = accounts().key_prefix(None, &[Value::U32(57)]).unwrap();
    let partitions = specs.map_partitions(&key);
    assert_eq!(partitions, [5, 0, 5, 0]);
}

trait MapPartitions {
    fn map_partitions(&self, key: &[u8]) -> Vec<u32>;
}

impl MapPartitions for Vec<tombolo_database::TableSpec> {
    fn map_partitions(&self, key: &[u8]) -> Vec<u32> {
        self.iter().map(|spec| spec.partition_of(key, 8)).collect()
    }
}

#[test]
fn text_prefixes_begin_the_keys_of_what_they_begin() {
    let table = accounts().with_index("by_owner", &["owner"], false).unwrap();
    let prefix = table.text_prefix(Some(0), &[], "An").unwrap();
    for (owner, begins) in [("Anna", true), ("An", true), ("A", false), ("Bo", false)] {
        let key = table.key_prefix(Some(0), &[Value::Text(owner.into())]).unwrap();
        assert_eq!(key.starts_with(&prefix), begins, "{owner}");
    }
    assert!(table.text_prefix(None, &[], "An").is_err(), "the branch is a number");
}

#[test]
fn what_does_not_fit_is_refused_with_its_name() {
    let row =
        |owner: &str, limit| vec![Value::U32(1), Value::I64(2), Value::Text(owner.into()), limit];
    let table = accounts();
    assert!(table.encode(&row("Anna", Value::Null)).is_ok());
    let refused = |values: &[Value]| table.encode(values).unwrap_err().to_string();
    assert_eq!(
        refused(&row(&"A".repeat(21), Value::Null)[..]),
        format!(
            "Text({:?}) cannot stand in column `owner` of table `accounts`, which holds Text {{ most: 20 }}",
            "A".repeat(21)
        )
    );
    assert!(refused(&row("Anna", Value::Bool(true))).contains("`limit`"));
    assert_eq!(refused(&[]), "0 values for 4 columns of table `accounts`");
    let no_column = Table::new("t", vec![], &["id"]).unwrap_err();
    assert_eq!(no_column.to_string(), "table `t` has no column `id`");
    let twice = Catalog::new(vec![accounts(), accounts()]).unwrap_err();
    assert!(twice.to_string().contains("`accounts` cannot be the name of a table"));
    let long = vec![Column::new("a", ColumnType::Text { most: 3000 })];
    let long = Catalog::new(vec![Table::new("t", long, &["a"]).unwrap()]).unwrap_err();
    assert!(matches!(long, SchemaError::TooLong { what: "keys", .. }));
    let number = vec![Column::new("a", ColumnType::I64)];
    let table = Table::new("t", number, &["a"]).unwrap();
    let divided = table.partitioned(Partitioning::Leading { per_partition: 1 });
    assert!(matches!(Catalog::new(vec![divided]), Err(SchemaError::PrimaryKey { .. })));
    let mut bytes = Catalog::default().encode(100).unwrap();
    bytes[8] = 2;
    assert_eq!(Catalog::decode(&bytes), Err(SchemaError::CatalogVersion { found: 2, known: 1 }));
}
