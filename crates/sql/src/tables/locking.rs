//! `SELECT ... FOR UPDATE`: rows that nobody else changes until the transaction ends.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, LockClause, LockType, NonBlock, Query, SelectItem, SetExpr,
    Statement as SqlStatement, Value,
};
use futures::TryStreamExt;
use moirai_tables::{LockWait, Locked, Transaction};

use crate::Result;
use crate::database::read;
use crate::tables::catalog::StatementTables;
use crate::tables::change::Target;
use crate::tables::session::{Session, refused, table_name};
use crate::tables::syntax::{self, TARGET};
use crate::tables::table::external;
use crate::tables::transaction::SessionScope;

/// Rows whose keys are locked at once.
const ROWS_AT_ONCE: usize = 1024;

/// A query whose rows are locked.
struct Locking {
    query: Query,
    wait: LockWait,
    limit: usize,
}

impl Locking {
    fn of(mut query: Query) -> Result<Locking> {
        let [LockClause { lock_type, of, nonblock }] = &query.locks[..] else {
            return refused("write FOR UPDATE once");
        };
        if *lock_type == LockType::Share {
            return refused("rows are locked for changes alone: write FOR UPDATE");
        }
        let wait = match nonblock {
            None => LockWait::Wait,
            Some(NonBlock::Nowait) => LockWait::NoWait,
            Some(NonBlock::SkipLocked) => LockWait::Skip,
        };
        let SetExpr::Select(select) = &*query.body else {
            return refused("FOR UPDATE locks the rows of a SELECT from a table");
        };
        let no_group = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
        let is_plain = query.with.is_none()
            && query.fetch.is_none()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.from.len() == 1
            && no_group;
        if !is_plain {
            return refused(
                "FOR UPDATE locks the rows of one table: write SELECT, FROM, WHERE, ORDER BY and LIMIT",
            );
        }
        if let (Some(of), Some(from)) = (of, select.from.first()) {
            let (of, from) = (table_name(of)?, from.relation.to_string());
            if !from.split_whitespace().any(|word| word == of) {
                return refused(format!("the query has no table `{of}` to lock"));
            }
        }
        let limit = match query.limit_clause.take() {
            None => usize::MAX,
            Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by })
                if limit_by.is_empty() =>
            {
                let number = match &limit {
                    Expr::Value(value) => match &value.value {
                        Value::Number(number, _) => number.parse().ok(),
                        _ => None,
                    },
                    _ => None,
                };
                match number {
                    Some(number) => number,
                    None => return refused(format!("LIMIT {limit} is no number")),
                }
            }
            Some(_) => return refused("with FOR UPDATE, LIMIT has a number and no OFFSET"),
        };
        query.locks.clear();
        let mut statement = SqlStatement::Query(Box::new(query.clone()));
        syntax::refuse_locks(&mut statement)?;
        Ok(Locking { query, wait, limit })
    }
}

impl Session {
    /// The rows of a query, which are locked until the transaction ends: with the statement, outside of a transaction block.
    pub(crate) async fn select_for_update(
        &self,
        state: &mut SessionScope,
        query: Query,
    ) -> Result<SendableRecordBatchStream> {
        let locking = Locking::of(query)?;
        let mut own;
        let transaction = match &mut state.block {
            Some(block) => {
                block.check()?;
                block.has_run = true;
                &mut block.transaction
            }
            None => {
                own = self.tables.begin_transaction(state.alone());
                &mut own
            }
        };
        loop {
            if let Some(rows) = self.locked_rows(transaction, &locking).await? {
                return Ok(rows);
            }
        }
    }

    /// The rows, or nothing where others have changed some of them before they were locked: then they are to be read again.
    async fn locked_rows(
        &self,
        transaction: &mut Transaction,
        Locking { query, wait, limit }: &Locking,
    ) -> Result<Option<SendableRecordBatchStream>> {
        let snapshot = transaction.snapshot().await?;
        let mut query = query.clone();
        let SetExpr::Select(select) = &mut *query.body else { return refused("no SELECT") };
        let Some(from) = select.from.first_mut() else { return refused("no table") };
        let target = self.target_of(&snapshot, from).await?;
        let Target { table, alias, .. } = &target;
        *from = syntax::table(TARGET, alias)?;
        // The number of the row is none of the table's columns.
        let fields = || table.schema().fields().iter();
        let all =
            || fields().map(|field| SelectItem::UnnamedExpr(syntax::column(alias, field.name())));
        let keys = target.key_columns();
        let of_key = keys.iter().enumerate().map(|(part, name)| {
            syntax::item(syntax::column(alias, name), &format!("\u{0}key {part}"))
        });
        let given = select.projection.drain(..).flat_map(|item| match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => all().collect(),
            item => vec![item],
        });
        // Behind the others, whose places ORDER BY may name.
        let items: Vec<SelectItem> = given.chain(of_key).collect();
        select.projection = items;
        let tables = StatementTables::of(&snapshot).await.map_err(external)?;
        let context = self.context(tables.with_target(table))?;
        let mut found = read(&context, syntax::query_statement(query)).await?;
        let shown: Vec<usize> = (0..found.schema().fields().len() - keys.len()).collect();
        let schema = found.schema().project(&shown).map_err(DataFusionError::from)?;
        let schema: Arc<Schema> = Arc::new(schema);
        let (mut rows, mut left) = (Vec::new(), *limit);
        while left > 0
            && let Some(batch) = found.try_next().await?
        {
            // Rows beyond the limit are not locked.
            let mut first = 0;
            while left > 0 && first < batch.num_rows() {
                let count = left.min(ROWS_AT_ONCE).min(batch.num_rows() - first);
                let batch = batch.slice(first, count);
                first += count;
                let columns = batch.columns().get(shown.len()..).unwrap_or_default();
                let keys = table.keys(columns).map_err(external)?;
                let (are_locked, locked) = transaction.lock_rows(table, &keys, *wait).await?;
                if locked == Locked::Stale {
                    return Ok(None);
                }
                let kept = filter_record_batch(&batch, &BooleanArray::from(are_locked));
                let kept = kept.and_then(|kept| kept.project(&shown));
                let kept: RecordBatch = kept.map_err(DataFusionError::from)?;
                left -= kept.num_rows();
                rows.push(Ok(kept));
            }
        }
        let stream = futures::stream::iter(rows);
        Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, stream))))
    }
}
