//! Budgets of tenants and keys.

use std::{sync::Arc, time::Duration};

use ringfence_types::KeyId;
use uuid::Uuid;

use super::samples::tenant;
use crate::{Budget, BudgetBounds, BudgetFor, Period, Store};

/// A budget reads back whole; a second one for the same takes its place; tenants are walls.
pub async fn a_budget_reads_back_whole_until_it_is_removed(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let bounds = BudgetBounds {
        calls: Some(7),
        cpu: Some(Duration::from_micros(1_500_000)),
        output_bytes: Some(1 << 40),
        tokens: Some(100_000),
    };
    let of = |key, per| BudgetFor { tenant: one.clone(), key, per };
    let key = KeyId(Uuid::now_v7());
    let all = [
        Budget { of: of(None, Period::Hour), bounds: BudgetBounds::default() },
        Budget { of: of(None, Period::Day), bounds },
        Budget { of: of(Some(key), Period::Day), bounds: BudgetBounds { cpu: None, ..bounds } },
    ];
    for budget in &all {
        store.set_budget(budget.clone()).await.expect("it is set");
    }
    let found = store.budgets(Some(&one)).await.expect("an answer");
    assert_eq!(found, all);
    assert_eq!(store.budgets(Some(&other)).await.expect("an answer"), []);
    let raised = Budget { bounds: BudgetBounds { calls: Some(8), ..bounds }, ..all[1].clone() };
    store.set_budget(raised.clone()).await.expect("it is set");
    assert!(store.remove_budget(all[0].of.clone()).await.expect("an answer"));
    assert!(!store.remove_budget(all[0].of.clone()).await.expect("an answer"));
    let found = store.budgets(Some(&one)).await.expect("an answer");
    assert_eq!(found, [raised, all[2].clone()]);
    let everywhere = store.budgets(None).await.expect("an answer");
    assert_eq!(everywhere.iter().filter(|budget| budget.of.tenant == one).count(), 2);
}
