//! `CREATE TABLE`, `CREATE INDEX`, `DROP TABLE` and `DROP INDEX`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::Constraint;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateIndex, CreateTable, CreateTableOptions, DataType, Expr, IndexColumn,
    ObjectName, ObjectType, SqlOption, Statement as SqlStatement, TableConstraint, Value,
};
use futures::TryStreamExt;
use moirai_tables::{IndexDefinition, Layout, LoadOptions, PageOptions, TableDefinition, Tables};
use moirai_units::ByteCount;

use crate::tables::catalog::StatementTables;
use crate::tables::insert::{column_of, rows_for};
use crate::tables::session::{Session, Written, normal, refused, table_name};
use crate::tables::syntax;
use crate::tables::table::external;
use crate::using::qualify_columns;
use crate::{Error, Result};

/// Of a statement that tells nothing.
pub(crate) const NOTHING: Written = Written { rows: 0, returned: Some(Vec::new()) };

/// What the options after `WITH` say of pages.
fn page_options(tables: &Tables, options: &CreateTableOptions) -> Result<PageOptions> {
    let given = match options {
        CreateTableOptions::None => &[][..],
        CreateTableOptions::With(given) => given,
        _ => return refused("options of a table come as WITH (name = value)"),
    };
    let mut values = BTreeMap::new();
    for option in given {
        let SqlOption::KeyValue { key, value: Expr::Value(value) } = option else {
            return refused(format!("`{option}` is no option of a table: write name = value"));
        };
        let value = match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        };
        if values.insert(normal(key), value).is_some() {
            return refused(format!("option `{key}` is given twice"));
        }
    }
    let layout = match values.remove("layout") {
        None => Layout::default(),
        Some(name) => match Layout::of_name(&name) {
            Some(layout) => layout,
            None => {
                let known = Layout::ALL.map(Layout::name).join(", ");
                return refused(format!("there is no layout `{name}`: take one of {known}"));
            }
        },
    };
    let mut pages = tables.page_options(layout);
    for (name, value) in values {
        let number = || match value.parse::<u32>() {
            Ok(number) => Ok(number),
            Err(_) => refused(format!("option `{name}` is a number, and not `{value}`")),
        };
        match name.as_str() {
            "page_rows" => pages.rows_max = number()?,
            "page_bytes" => pages.page_bytes = ByteCount(u64::from(number()?)),
            "group_pages" => pages.group_pages = number()?,
            _ => {
                return refused(format!(
                    "there is no option `{name}`: take layout, page_rows, page_bytes or group_pages"
                ));
            }
        }
    }
    Ok(pages)
}

/// What to write for a column whose values are unique.
const UNIQUE_HINT: &str =
    " (hint: CREATE UNIQUE INDEX name ON table (columns) comes after CREATE TABLE)";

/// The defaults of columns, as SQL; an error for what tables do not know.
fn defaults_of(create: &CreateTable) -> Result<BTreeMap<usize, String>> {
    let mut defaults = BTreeMap::new();
    let mut keys = 0;
    for constraint in &create.constraints {
        if !matches!(constraint, TableConstraint::PrimaryKey(_)) {
            let is_unique = matches!(constraint, TableConstraint::Unique(_));
            let hint = if is_unique { UNIQUE_HINT } else { "" };
            return refused(format!("tables have no `{constraint}`: a PRIMARY KEY is all{hint}"));
        }
        keys += 1;
    }
    for (index, column) in create.columns.iter().enumerate() {
        if let DataType::Char(Some(_))
        | DataType::Character(Some(_))
        | DataType::Varchar(Some(_))
        | DataType::CharacterVarying(Some(_))
        | DataType::CharVarying(Some(_)) = column.data_type
        {
            let of = &column.data_type;
            return refused(format!("the length of {of} would not be checked: take TEXT"));
        }
        for option in &column.options {
            match &option.option {
                ColumnOption::Null | ColumnOption::NotNull => {}
                ColumnOption::PrimaryKey(_) => keys += 1,
                ColumnOption::Default(default) => {
                    defaults.insert(index, syntax::text_of(default)?);
                }
                other => {
                    let is_unique = matches!(other, ColumnOption::Unique(_));
                    let hint = if is_unique { UNIQUE_HINT } else { "" };
                    return refused(format!(
                        "column `{}` has `{other}`: columns have NULL, NOT NULL, DEFAULT and PRIMARY KEY{hint}",
                        column.name
                    ));
                }
            }
        }
    }
    if keys > 1 {
        return refused("a table has one PRIMARY KEY: name its columns together");
    }
    Ok(defaults)
}

impl Session {
    pub(crate) async fn create_table(&self, mut create: CreateTable) -> Result<Written> {
        if create.temporary || create.external || create.like.is_some() || create.clone.is_some() {
            return refused("tables are not TEMPORARY or EXTERNAL, and not made LIKE others");
        }
        let name = table_name(&create.name)?;
        let exists = self.tables.find(&name).await.map_err(external)?.is_some();
        if exists && create.if_not_exists {
            return Ok(NOTHING);
        }
        let replace = create.or_replace;
        if exists && !replace {
            return Err(Error::Tables(moirai_tables::Error::TableExists { name }));
        }
        let pages = page_options(&self.tables, &create.table_options)?;
        let mut defaults = defaults_of(&create)?;
        // DataFusion knows what columns are, and nothing of these.
        create.table_options = CreateTableOptions::None;
        for column in &mut create.columns {
            column.options.retain(|one| !matches!(one.option, ColumnOption::Default(_)));
        }
        qualify_columns(&mut create.query);
        let (has_query, has_columns) = (create.query.is_some(), !create.columns.is_empty());
        let snapshot = self.tables.snapshot().await;
        let tables = StatementTables::of(&snapshot).await.map_err(external)?;
        let context = self.context(tables)?;
        let statement = Statement::Statement(Box::new(SqlStatement::CreateTable(create)));
        let plan = context.state().statement_to_plan(statement).await?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(made)) = plan else {
            return refused("this CREATE TABLE is not known here");
        };
        let CreateMemoryTable { input, constraints, .. } = made;
        let mut schema = Arc::new(input.schema().as_arrow().clone());
        if !has_columns {
            // What a query gives may be null in rows that come later.
            let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
            schema =
                Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Vec<_>>()));
        }
        let mut key = Vec::new();
        for constraint in constraints.iter() {
            match constraint {
                Constraint::PrimaryKey(columns) => {
                    key =
                        columns.iter().map(|column| schema.field(*column).name().clone()).collect();
                }
                Constraint::Unique(_) => {
                    return refused("write CREATE UNIQUE INDEX behind the table");
                }
            }
        }
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let mut definition = TableDefinition::new(schema, &key).map_err(external)?;
        definition.pages = pages;
        definition.defaults.append(&mut defaults);
        let options = LoadOptions { replace };
        let mut load = self.tables.load(&name, definition, options).await.map_err(external)?;
        if has_query {
            let plan = context.execute_logical_plan((*input).clone()).await?;
            let mut rows = execute_stream(plan.create_physical_plan().await?, context.task_ctx())?;
            while let Some(batch) = rows.try_next().await? {
                let rows = rows_for(load.table(), batch.columns())?;
                load.push(&rows).await.map_err(external)?;
            }
        }
        let (_, rows) = load.finish().await.map_err(external)?;
        Ok(if has_query { Written { rows, returned: None } } else { NOTHING })
    }

    pub(crate) async fn create_index(&self, create: CreateIndex) -> Result<Written> {
        let is_plain = create.using.is_none()
            && create.include.is_empty()
            && create.nulls_distinct != Some(false)
            && create.with.is_empty()
            && create.predicate.is_none()
            && create.index_options.is_empty()
            && create.alter_options.is_empty();
        if !is_plain {
            return refused("write CREATE [UNIQUE] INDEX name ON table (columns)");
        }
        let Some(name) = &create.name else {
            return refused("an index has a name: CREATE INDEX name ON table (columns)");
        };
        let name = table_name(name)?;
        if create.if_not_exists && self.tables.table_of_index(&name).await?.is_some() {
            return Ok(NOTHING);
        }
        let of_table = table_name(&create.table_name)?;
        let table = self.tables.table(&of_table).await?;
        let mut columns = Vec::with_capacity(create.columns.len());
        for IndexColumn { column, operator_class } in create.columns {
            let is_plain = operator_class.is_none()
                && column.with_fill.is_none()
                && column.options.nulls_first != Some(true)
                && column.options.asc != Some(false);
            let Expr::Identifier(name) = column.expr else {
                return refused("an index has columns of its table, and no expressions");
            };
            if !is_plain {
                return refused("an index ascends, and has nulls last: it is read both ways");
            }
            columns.push(column_of(&table, &of_table, &ObjectName::from(vec![name]))?);
        }
        let index = IndexDefinition { name, columns, is_unique: create.unique };
        self.tables.create_index(&of_table, index).await?;
        Ok(NOTHING)
    }

    pub(crate) async fn drop(&self, drop: SqlStatement) -> Result<Written> {
        let SqlStatement::Drop {
            object_type: object_type @ (ObjectType::Table | ObjectType::Index),
            if_exists,
            names,
            cascade: _,
            restrict: _,
            purge: false,
            temporary: false,
            table: None,
        } = drop
        else {
            return refused("tables and indexes alone can be dropped, and none is temporary");
        };
        let [name] = &names[..] else { return refused("drop one table or index at a time") };
        let name = table_name(name)?;
        let is_table = object_type == ObjectType::Table;
        let is_there = match is_table {
            true => self.tables.find(&name).await.map_err(external)?.is_some(),
            false => self.tables.table_of_index(&name).await?.is_some(),
        };
        match (if_exists && !is_there, is_table) {
            (true, _) => {}
            (false, true) => self.tables.drop_table(&name).await?,
            (false, false) => self.tables.drop_index(&name).await?,
        }
        Ok(NOTHING)
    }
}
