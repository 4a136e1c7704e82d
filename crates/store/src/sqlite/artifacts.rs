//! Artifacts and their lineage.

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{ArtifactId, CallId, Digest, TenantId};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{SqliteStore, blob_uses, record, rows};
use crate::{
    Artifact, ArtifactChange, ArtifactChanged, ArtifactPage, ArtifactQuery, ArtifactRef,
    ArtifactTotals, ArtifactVerdict, ArtifactVersion, BlobOwner, Error, Lineage, LineageDirection,
    LineageEdge, LineageNode, LineageQuery, LineageRelation, NewArtifact, NewVersion, VersionAbout,
    artifact::{self, VISITED},
    lineage::Walk,
};

/// Adds an artifact, within a transaction of the caller's that has its bytes.
pub(super) fn insert(
    connection: &Connection,
    tenant: &TenantId,
    new: &NewArtifact,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO artifacts (id, tenant, kind, title, about, created_at, newest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)",
        )?
        .execute(params![
            new.id.0.as_bytes(),
            tenant.as_str(),
            new.kind.name(),
            new.title,
            rows::json(&new.about)?,
            new.version.at.as_micros(),
        ])?;
    insert_version(connection, tenant, new.id, 1, &new.version)?;
    for mark in new.marks() {
        insert_mark(connection, tenant, &mark, new.id)?;
    }
    count(connection, tenant, (1, 1, new.version.size.cast_signed()))
}

fn insert_version(
    connection: &Connection,
    tenant: &TenantId,
    id: ArtifactId,
    number: u32,
    version: &NewVersion,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO artifact_versions (artifact, version, tenant, digest, size, at, call, about)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            id.0.as_bytes(),
            number,
            tenant.as_str(),
            version.digest.as_bytes(),
            version.size.cast_signed(),
            version.at.as_micros(),
            version.call.map(|call| call.0.into_bytes()),
            rows::json(&version.about)?,
        ])?;
    blob_uses::insert(connection, BlobOwner::Artifact(id), version.digest)?;
    let edges = LineageEdge::of_version(id, number, version.call, version.about.copy_of);
    insert_edges(connection, tenant, &edges)
}

fn insert_mark(
    connection: &Connection,
    tenant: &TenantId,
    mark: &str,
    id: ArtifactId,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO artifact_marks (tenant, mark, artifact) VALUES (?1, ?2, ?3)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![tenant.as_str(), mark, id.0.as_bytes()])?;
    Ok(())
}

/// Adds edges of the lineage, within a transaction of the caller's.
pub(super) fn insert_edges(
    connection: &Connection,
    tenant: &TenantId,
    edges: &[LineageEdge],
) -> Result<(), Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO lineage (tenant, node, cause, relation) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?;
    for edge in edges {
        statement.execute(params![
            tenant.as_str(),
            edge.node.key(),
            edge.cause.key(),
            edge.relation.number()
        ])?;
    }
    Ok(())
}

/// Changes the totals of a tenant: artifacts, versions, bytes.
fn count(
    connection: &Connection,
    tenant: &TenantId,
    (artifacts, versions, bytes): (i64, i64, i64),
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO artifact_totals (tenant, artifacts, versions, bytes)
             VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant) DO UPDATE SET
             artifacts = artifacts + excluded.artifacts, versions = versions + excluded.versions,
             bytes = bytes + excluded.bytes",
        )?
        .execute(params![tenant.as_str(), artifacts, versions, bytes])?;
    Ok(())
}

pub(super) async fn change(
    store: &SqliteStore,
    tenant: &TenantId,
    mut change: ArtifactChange,
) -> Result<ArtifactChanged, Error> {
    let bytes = match &mut change {
        ArtifactChange::Create { bytes, .. } => Some(std::mem::take(bytes)),
        ArtifactChange::AddVersion { bytes, .. } => bytes.take(),
        _ => None,
    };
    let has_bytes = bytes.is_some();
    store.room.charge(tenant, bytes.as_ref().map_or(0, Vec::len));
    let (blobs, held) = record::place(store, bytes.into_iter().collect()).await?;
    let tenant = tenant.clone();
    let made = store.db.write_then(
        move |connection| {
            let target = Target { connection, tenant: &tenant };
            // Before the bytes are written, so that a refusal changes nothing.
            if let Some(refusal) = target.refusal(&change, has_bytes)? {
                return Ok(refusal);
            }
            blobs.iter().try_for_each(|blob| blob.insert(connection))?;
            target.make(&change)
        },
        move |changed: &ArtifactChanged| {
            let is_done = matches!(changed, ArtifactChanged::Done { .. });
            if let Some(held) = held.filter(|_| is_done) {
                held.keep();
            }
        },
    );
    made.await
}

/// Artifacts of a tenant, within a transaction.
struct Target<'a> {
    connection: &'a Connection,
    tenant: &'a TenantId,
}

impl Target<'_> {
    /// Reason why a change is not made.
    fn refusal(
        &self,
        change: &ArtifactChange,
        has_bytes: bool,
    ) -> Result<Option<ArtifactChanged>, Error> {
        let id = match change {
            ArtifactChange::Create { .. } => return Ok(None),
            ArtifactChange::AddVersion { id, .. }
            | ArtifactChange::AddVerdict { id, .. }
            | ArtifactChange::AddLabels { id, .. }
            | ArtifactChange::Remove { id } => *id,
        };
        let Some(newest) = self.newest(id)? else { return Ok(Some(ArtifactChanged::NotFound)) };
        let not_found = |found: bool| (!found).then_some(ArtifactChanged::NotFound);
        Ok(match change {
            ArtifactChange::AddVersion { after: Some(after), .. } if *after != newest => {
                Some(ArtifactChanged::NotNewest(newest))
            }
            ArtifactChange::AddVersion { version, .. } => {
                not_found(has_bytes || self.has(id, version.digest)?)
            }
            ArtifactChange::AddVerdict { version: Some(version), .. } => {
                not_found((1..=newest).contains(version))
            }
            _ => None,
        })
    }

    fn newest(&self, id: ArtifactId) -> Result<Option<u32>, Error> {
        let sql = "SELECT newest FROM artifacts WHERE id = ?1 AND tenant = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found =
            statement.query_row(params![id.0.as_bytes(), self.tenant.as_str()], |row| row.get(0));
        Ok(found.optional()?)
    }

    fn has(&self, id: ArtifactId, digest: Digest) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM artifact_versions WHERE artifact = ?1 AND digest = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.exists(params![id.0.as_bytes(), digest.as_bytes()])?)
    }

    fn make(&self, change: &ArtifactChange) -> Result<ArtifactChanged, Error> {
        let done = |version, verdict| Ok(ArtifactChanged::Done { version, verdict });
        match change {
            ArtifactChange::Create { artifact, .. } => {
                insert(self.connection, self.tenant, artifact)?;
                done(1, 0)
            }
            ArtifactChange::AddVersion { id, version, .. } => {
                let newest = self.newest(*id)?.unwrap_or(0);
                self.add_version(*id, newest + 1, version)?;
                done(newest + 1, 0)
            }
            ArtifactChange::AddVerdict { id, version, at, about } => {
                let version = match version {
                    Some(version) => *version,
                    None => self.newest(*id)?.unwrap_or(0),
                };
                let sql = "INSERT INTO artifact_verdicts (artifact, version, number, at, about)
                    SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?3, ?4 FROM artifact_verdicts
                    WHERE artifact = ?1 AND version = ?2 RETURNING number";
                let params = params![id.0.as_bytes(), version, at.as_micros(), rows::json(about)?];
                let number =
                    self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))?;
                done(version, number)
            }
            ArtifactChange::AddLabels { id, labels } => {
                self.add_labels(*id, labels)?;
                done(self.newest(*id)?.unwrap_or(0), 0)
            }
            ArtifactChange::Remove { id } => {
                let newest = self.newest(*id)?.unwrap_or(0);
                self.remove(*id)?;
                done(newest, 0)
            }
        }
    }

    fn add_version(&self, id: ArtifactId, number: u32, version: &NewVersion) -> Result<(), Error> {
        insert_version(self.connection, self.tenant, id, number, version)?;
        self.connection
            .prepare_cached("UPDATE artifacts SET newest = ?2 WHERE id = ?1")?
            .execute(params![id.0.as_bytes(), number])?;
        for label in &version.about.labels {
            insert_mark(self.connection, self.tenant, &artifact::label_mark(label), id)?;
        }
        count(self.connection, self.tenant, (0, 1, version.size.cast_signed()))
    }

    fn add_labels(&self, id: ArtifactId, labels: &[String]) -> Result<(), Error> {
        let sql = "SELECT version, about FROM artifact_versions WHERE artifact = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_map([id.0.as_bytes()], |row| {
            Ok((row.get::<_, i64>(0)?, rows::parsed::<VersionAbout>(row, 1)?))
        })?;
        for (version, about) in found.collect::<Result<Vec<_>, _>>()? {
            let Some(about) = artifact::with_labels(&about, labels) else { continue };
            self.connection
                .prepare_cached(
                    "UPDATE artifact_versions SET about = ?3 WHERE artifact = ?1 AND version = ?2",
                )?
                .execute(params![id.0.as_bytes(), version, rows::json(&about)?])?;
        }
        labels.iter().try_for_each(|label| {
            insert_mark(self.connection, self.tenant, &artifact::label_mark(label), id)
        })
    }

    fn remove(&self, id: ArtifactId) -> Result<(), Error> {
        let key = id.0.as_bytes();
        let sql =
            "SELECT count(*), coalesce(sum(size), 0) FROM artifact_versions WHERE artifact = ?1";
        let (versions, bytes): (i64, i64) = self
            .connection
            .prepare_cached(sql)?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for sql in [
            "DELETE FROM artifact_versions WHERE artifact = ?1",
            "DELETE FROM artifact_verdicts WHERE artifact = ?1",
            "DELETE FROM artifact_marks WHERE artifact = ?1",
            "DELETE FROM artifacts WHERE id = ?1",
        ] {
            self.connection.prepare_cached(sql)?.execute([key])?;
        }
        blob_uses::release(self.connection, BlobOwner::Artifact(id))?;
        count(self.connection, self.tenant, (-1, -versions, -bytes))
    }
}

/// Columns that [`of_row`] reads.
const COLUMNS: &str = "artifacts.id, artifacts.tenant, artifacts.kind, artifacts.title, \
    artifacts.about, artifacts.created_at, artifacts.newest";

fn of_row(row: &Row<'_>) -> rusqlite::Result<Artifact> {
    Ok(Artifact {
        id: ArtifactId(rows::uuid(row, 0)?),
        tenant: rows::name(row, 1)?,
        kind: rows::name(row, 2)?,
        title: row.get(3)?,
        about: rows::parsed(row, 4)?,
        created_at: rows::timestamp(row, 5)?,
        newest: row.get(6)?,
    })
}

/// Columns that [`version_of_row`] reads.
const VERSION_COLUMNS: &str = "version, digest, size, at, call, about";

fn version_of_row(row: &Row<'_>) -> rusqlite::Result<ArtifactVersion> {
    let call: Option<[u8; 16]> = row.get(4)?;
    Ok(ArtifactVersion {
        number: row.get(0)?,
        content: NewVersion {
            digest: rows::digest(row, 1)?,
            size: row.get::<_, i64>(2)?.cast_unsigned(),
            at: rows::timestamp(row, 3)?,
            call: call.map(|id| CallId(uuid::Uuid::from_bytes(id))),
            about: rows::parsed(row, 5)?,
        },
    })
}

pub(super) async fn one(
    db: &Db,
    tenant: &TenantId,
    id: ArtifactId,
) -> Result<Option<Artifact>, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM artifacts WHERE id = ?1 AND tenant = ?2");
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params![id.0.as_bytes(), tenant.as_str()], of_row).optional()?)
    })
    .await
}

pub(super) async fn list(db: &Db, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let marks = query.marks();
        let (first, others) = match marks.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        let from = match first {
            Some(_) => {
                "artifact_marks JOIN artifacts ON artifacts.id = artifact_marks.artifact
                WHERE artifact_marks.tenant = ?1 AND artifact_marks.mark = ?2"
            }
            None => "artifacts WHERE artifacts.tenant = ?1 AND ?2 IS NULL",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM {from} AND (?3 IS NULL OR artifacts.id < ?3)
             ORDER BY artifacts.id DESC LIMIT ?4"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let before = query.before.map(|id| id.0.into_bytes());
        let params = params![query.tenant.as_str(), first, before, VISITED as i64];
        let visited = rows::readable(statement.query(params)?, ("artifacts", 0), of_row)?;
        let mut page = ArtifactPage::of(&query, visited);
        for mark in others {
            let mut has = connection.prepare_cached(
                "SELECT 1 FROM artifact_marks WHERE tenant = ?1 AND mark = ?2 AND artifact = ?3",
            )?;
            let mut kept = Vec::new();
            for artifact in page.artifacts {
                if has.exists(params![query.tenant.as_str(), mark, artifact.id.0.as_bytes()])? {
                    kept.push(artifact);
                }
            }
            page.artifacts = kept;
        }
        Ok(page)
    })
    .await
}

pub(super) async fn versions(
    db: &Db,
    tenant: &TenantId,
    id: ArtifactId,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<ArtifactVersion>, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = format!(
            "SELECT {VERSION_COLUMNS} FROM artifact_versions WHERE artifact = ?1 AND tenant = ?2
             AND (?3 IS NULL OR version < ?3) ORDER BY version DESC LIMIT ?4"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let params = params![id.0.as_bytes(), tenant.as_str(), before, rows::page(limit)];
        let found = statement.query_map(params, version_of_row)?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

pub(super) async fn version(
    db: &Db,
    tenant: &TenantId,
    wanted: ArtifactRef,
) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let read = |row: &Row<'_>| Ok((ArtifactId(rows::uuid(row, 6)?), version_of_row(row)?));
        let select = format!("SELECT {VERSION_COLUMNS}, artifact FROM artifact_versions");
        let found = match wanted {
            ArtifactRef::Content(digest) => connection
                .prepare_cached(&format!(
                    "{select} WHERE tenant = ?1 AND digest = ?2
                     ORDER BY artifact DESC, version DESC LIMIT 1"
                ))?
                .query_row(params![tenant.as_str(), digest.as_bytes()], read),
            ArtifactRef::Version(id, number) => connection
                .prepare_cached(&format!(
                    "{select} WHERE artifact = ?1 AND tenant = ?2 AND (?3 IS NULL OR version = ?3)
                     ORDER BY version DESC LIMIT 1"
                ))?
                .query_row(params![id.0.as_bytes(), tenant.as_str(), number], read),
        };
        Ok(found.optional()?)
    })
    .await
}

pub(super) async fn labels(
    db: &Db,
    tenant: &TenantId,
    digest: Digest,
) -> Result<Vec<String>, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT DISTINCT about FROM artifact_versions WHERE tenant = ?1 AND digest = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_map(params![tenant.as_str(), digest.as_bytes()], |row| {
            rows::parsed::<VersionAbout>(row, 0)
        })?;
        let mut all = Vec::new();
        for about in found {
            all.extend(about?.labels);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    })
    .await
}

pub(super) async fn verdicts(
    db: &Db,
    tenant: &TenantId,
    id: ArtifactId,
    limit: usize,
) -> Result<Vec<ArtifactVerdict>, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT version, number, at, artifact_verdicts.about FROM artifact_verdicts
            JOIN artifacts ON artifacts.id = artifact WHERE artifact = ?1 AND tenant = ?2
            ORDER BY version DESC, number DESC LIMIT ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let params = params![id.0.as_bytes(), tenant.as_str(), rows::page(limit)];
        let found = statement.query_map(params, |row| {
            let (version, number) = (row.get(0)?, row.get(1)?);
            let (at, about) = (rows::timestamp(row, 2)?, rows::parsed(row, 3)?);
            Ok(ArtifactVerdict { version, number, at, about })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    })
    .await
}

pub(super) async fn totals(db: &Db, tenant: &TenantId) -> Result<ArtifactTotals, Error> {
    let tenant = tenant.clone();
    let lane = tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let sql = "SELECT artifacts, versions, bytes FROM artifact_totals WHERE tenant = ?1";
        let number = |row: &Row<'_>, index| row.get::<_, i64>(index).map(i64::cast_unsigned);
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_row([tenant.as_str()], |row| {
            let (artifacts, versions) = (number(row, 0)?, number(row, 1)?);
            Ok(ArtifactTotals { artifacts, versions, bytes: number(row, 2)? })
        });
        Ok(found.optional()?.unwrap_or_default())
    })
    .await
}

pub(super) async fn lineage(db: &Db, query: LineageQuery) -> Result<Lineage, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| {
        let mut walk = Walk::new(&query);
        let column = match walk.direction {
            LineageDirection::Backward => "node",
            LineageDirection::Forward => "cause",
        };
        let sql = format!(
            "SELECT node, cause, relation FROM lineage WHERE tenant = ?1 AND {column} = ?2 LIMIT ?3"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        'levels: while let Some(keys) = walk.next() {
            for key in keys {
                let room = walk.room() as i64;
                let mut found = statement.query(params![query.tenant.as_str(), key, room])?;
                while let Some(row) = found.next()? {
                    if !walk.take(edge(row)?) {
                        break 'levels;
                    }
                }
            }
        }
        Ok(walk.done())
    })
    .await
}

fn edge(row: &Row<'_>) -> rusqlite::Result<LineageEdge> {
    let node = |index: usize| {
        let key = row.get_ref(index)?.as_blob()?;
        LineageNode::of_key(key).ok_or_else(|| unknown(index))
    };
    let relation = LineageRelation::of_number(row.get(2)?).ok_or_else(|| unknown(2))?;
    Ok(LineageEdge { node: node(0)?, cause: node(1)?, relation })
}

fn unknown(index: usize) -> rusqlite::Error {
    rows::undecodable(index, "not a node or a relation of the lineage".into())
}
