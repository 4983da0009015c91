//! The two sets of migrations: equal names, equal tables, a way back, and a start beside others.

use std::collections::BTreeSet;
use std::path::Path;

use chargeonce::storage::{StoreSettings, connect};
use futures_util::future::join_all;

use crate::support::{Engine, Fixture, TestDatabase, invoice};

on_both_stores! {
    async fn up_down_and_up_again_is_the_same_schema(engine) {
        let store = Fixture::open(engine).await;
        let made = schema(&store.database).await;
        assert!(made.len() > 60, "{made:#?}");

        let mut session = store.database.session().await;
        let names = migrations(engine);
        for name in names.iter().rev() {
            session.batch(&script(engine, name, "down.sql")).await;
        }
        assert_eq!(schema(&store.database).await, Vec::<String>::new(), "nothing is left");
        for name in &names {
            session.batch(&script(engine, name, "up.sql")).await;
        }

        assert_eq!(schema(&store.database).await, made);
    }

    async fn opening_a_database_that_is_up_to_date_changes_nothing(engine) {
        let store = Fixture::open(engine).await;
        store.charging("inv_1").await;
        let before = (schema(&store.database).await, store.dump().await);
        let versions = store.database.words("SELECT CAST(run_on AS TEXT) AS value FROM __diesel_schema_migrations").await;

        let again = connect(&StoreSettings::new(&store.database.url)).await.unwrap();

        assert_eq!(again.find_invoice("inv_1").await.unwrap(), Some(invoice("inv_1")));
        assert_eq!((schema(&store.database).await, store.dump().await), before);
        let after = store.database.words("SELECT CAST(run_on AS TEXT) AS value FROM __diesel_schema_migrations").await;
        assert_eq!(after, versions);
    }

    async fn stores_that_open_one_empty_database_at_the_same_moment_all_succeed(engine) {
        for _ in 0..5 {
            let database = TestDatabase::create(engine).await;
            let openings: Vec<_> = (0..6).map(|_| {
                let settings = StoreSettings::new(&database.url);
                tokio::spawn(async move { connect(&settings).await })
            }).collect();
            let stores: Vec<_> = join_all(openings).await.into_iter().map(|opened| opened.unwrap().unwrap()).collect();
            for store in stores {
                store.condition().await.unwrap();
            }
            let count = database.number("SELECT COUNT(*) AS value FROM __diesel_schema_migrations").await;
            assert_eq!(count, i64::try_from(migrations(engine).len()).unwrap());
        }
    }

    async fn the_tables_are_those_that_the_code_reads(engine) {
        let store = Fixture::open(engine).await;

        assert_eq!(tables(&store.database).await, declared_tables());
    }
}

#[test]
fn both_sets_have_the_same_migrations_each_with_a_way_back() {
    let sets = [Engine::Sqlite, Engine::Postgres].map(migrations);
    assert!(!sets[0].is_empty());
    assert_eq!(sets[0], sets[1]);
    for engine in [Engine::Sqlite, Engine::Postgres] {
        for name in &sets[0] {
            for file in ["up.sql", "down.sql"] {
                assert!(
                    !script(engine, name, file).trim().is_empty(),
                    "{name}/{file}"
                );
            }
        }
    }
}

fn folder(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "migrations/sqlite",
        Engine::Postgres => "migrations/postgres",
    }
}

fn migrations(engine: Engine) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder(engine));
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn script(engine: Engine, name: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder(engine))
        .join(name)
        .join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Everything that a migration can make, as the database describes it.
async fn schema(database: &TestDatabase) -> Vec<String> {
    let sql = match database.engine {
        Engine::Sqlite => {
            "SELECT m.type || ' ' || m.name || ' ' || COALESCE(c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || c.pk, m.sql, '') AS value \
             FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table' WHERE m.name NOT LIKE '%__diesel%' \
             UNION ALL SELECT 'sql ' || name || ' ' || sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%__diesel%' ORDER BY 1"
        }
        Engine::Postgres => {
            "SELECT 'column ' || table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || COALESCE(collation_name, '') \
                 || ' ' || COALESCE(column_default, '') AS value \
                 FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE '%diesel%' \
             UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE '%diesel%' \
             UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint \
                 WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text NOT LIKE '%diesel%' \
             UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal \
             UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
                 AND proname NOT LIKE '%diesel%' ORDER BY 1"
        }
    };
    database.words(sql).await
}

/// `table.column type null` for every column, with the types under the names that the code knows.
async fn tables(database: &TestDatabase) -> BTreeSet<String> {
    let sql = match database.engine {
        Engine::Sqlite => {
            "SELECT m.name || '.' || c.name || ' ' || lower(c.type) || CASE WHEN c.\"notnull\" = 1 OR c.pk > 0 THEN '' ELSE ' null' END AS value \
             FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE '%__diesel%'"
        }
        Engine::Postgres => {
            "SELECT table_name || '.' || column_name || ' ' || data_type || CASE is_nullable WHEN 'YES' THEN ' null' ELSE '' END AS value \
             FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE '%diesel%'"
        }
    };
    database.words(sql).await.into_iter().collect()
}

/// The same, from the code's own declaration.
fn declared_tables() -> BTreeSet<String> {
    let source = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/storage/schema.rs"),
    )
    .unwrap();
    let mut found = BTreeSet::new();
    let mut table = "";
    for line in source.lines().map(str::trim) {
        if let Some((name, _)) = line.split_once(" (").filter(|_| line.ends_with(") {")) {
            table = name;
        } else if let Some((column, kind)) = line.split_once(" -> ") {
            let kind = kind.trim_end_matches(',');
            let (kind, null) = match kind.strip_prefix("Nullable<") {
                Some(inner) => (inner.trim_end_matches('>'), " null"),
                None => (kind, ""),
            };
            if column.contains('(') {
                continue;
            }
            let kind = match kind {
                "Text" => "text",
                "Integer" => "integer",
                "BigInt" => "bigint",
                "Bool" => "boolean",
                other => panic!("{other} is not one of the portable types"),
            };
            found.insert(format!("{table}.{column} {kind}{null}"));
        }
    }
    found
}
