//! Artifacts and their lineage.

use futures_util::future::join5;
use ringfence_types::{ArtifactId, CallId, Digest, TenantId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    blob_uses,
    blobs::{self, MAX_INLINE},
    columns::{INSERT_BLOB_USES, INSERT_BLOBS, REUSE_BLOBS},
    connect::{DbError, Link},
    pool::Pool,
    rows::{self, check_text},
};
use crate::{
    Artifact, ArtifactChange, ArtifactChanged, ArtifactPage, ArtifactQuery, ArtifactRef,
    ArtifactTotals, ArtifactVerdict, ArtifactVersion, BlobOwner, Error, LargeBlobs, Lineage,
    LineageDirection, LineageEdge, LineageNode, LineageQuery, LineageRelation, NewArtifact,
    NewVersion, VersionAbout,
    artifact::{self, VISITED},
    encoding::{self, Undecodable, page},
    lineage::Walk,
};

const INSERT: &str = "INSERT INTO artifacts (id, tenant, kind, title, about, created_at, newest)
    SELECT *, 1 FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])";

const INSERT_VERSIONS: &str = "INSERT INTO artifact_versions
    (artifact, version, tenant, digest, size, at, call, about)
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[],
                         $6::bigint[], $7::uuid[], $8::text[])";

const INSERT_MARKS: &str = "INSERT INTO artifact_marks (tenant, mark, artifact)
    SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING";

const INSERT_EDGES: &str = "INSERT INTO lineage (tenant, node, cause, relation)
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]) ON CONFLICT DO NOTHING";

const COUNT: &str = "INSERT INTO artifact_totals (tenant, artifacts, versions, bytes)
    SELECT tenant, sum(artifacts)::bigint, sum(versions)::bigint, sum(bytes)::bigint
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS new (tenant, artifacts, versions, bytes) GROUP BY tenant ORDER BY tenant
    ON CONFLICT (tenant) DO UPDATE SET artifacts = artifact_totals.artifacts + excluded.artifacts,
    versions = artifact_totals.versions + excluded.versions,
    bytes = artifact_totals.bytes + excluded.bytes";

pub(super) const PIPELINED: &[&str] = &[INSERT, INSERT_VERSIONS, INSERT_MARKS, INSERT_EDGES, COUNT];

/// New rows of artifacts and of the lineage.
#[derive(Debug, Default)]
pub(super) struct NewRows<'a> {
    artifacts: Vec<(&'a str, &'a NewArtifact)>,
    versions: Vec<(&'a str, ArtifactId, u32, &'a NewVersion)>,
    marks: Vec<(&'a str, String, Uuid)>,
    edges: Vec<(&'a str, LineageEdge)>,
    counts: Vec<(&'a str, i64, i64, i64)>,
}

impl<'a> NewRows<'a> {
    pub(super) fn add(&mut self, tenant: &'a str, new: &'a NewArtifact) {
        self.artifacts.push((tenant, new));
        self.marks.extend(new.marks().into_iter().map(|mark| (tenant, mark, new.id.0)));
        self.counts.push((tenant, 1, 0, 0));
        self.add_version(tenant, new.id, 1, &new.version);
    }

    fn add_version(
        &mut self,
        tenant: &'a str,
        id: ArtifactId,
        number: u32,
        version: &'a NewVersion,
    ) {
        self.versions.push((tenant, id, number, version));
        self.counts.push((tenant, 0, 1, version.size.cast_signed()));
        let edges = LineageEdge::of_version(id, number, version.call, version.about.copy_of);
        self.add_edges(tenant, &edges);
        let labels = version.about.labels.iter();
        self.marks.extend(labels.map(|label| (tenant, artifact::label_mark(label), id.0)));
    }

    pub(super) fn add_edges(&mut self, tenant: &'a str, edges: &[LineageEdge]) {
        self.edges.extend(edges.iter().map(|edge| (tenant, *edge)));
    }

    /// Writes all rows; the blobs must have their owners. All statements are on their way when this is first
    /// polled, if they are prepared: the commit follows them.
    pub(super) async fn write(&self, link: &Link) -> Result<(), DbError> {
        let (artifacts, versions, marks, edges, counts) = join5(
            self.write_artifacts(link),
            self.write_versions(link),
            write_marks(link, &self.marks),
            self.write_edges(link),
            count(link, &self.counts),
        )
        .await;
        artifacts.and(versions).and(marks).and(edges).and(counts)
    }

    async fn write_edges(&self, link: &Link) -> Result<(), DbError> {
        if self.edges.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = self.edges.iter().map(|(tenant, _)| *tenant).collect();
        let nodes: Vec<_> = self.edges.iter().map(|(_, edge)| edge.node.key()).collect();
        let causes: Vec<_> = self.edges.iter().map(|(_, edge)| edge.cause.key()).collect();
        let relations: Vec<_> = self.edges.iter().map(|(_, edge)| edge.relation.number()).collect();
        link.execute(INSERT_EDGES, &[&tenants, &nodes, &causes, &relations]).await.map(drop)
    }

    async fn write_artifacts(&self, link: &Link) -> Result<(), DbError> {
        if self.artifacts.is_empty() {
            return Ok(());
        }
        let new = || self.artifacts.iter().map(|(_, new)| *new);
        let ids: Vec<_> = new().map(|new| new.id.0).collect();
        let tenants: Vec<_> = self.artifacts.iter().map(|(tenant, _)| *tenant).collect();
        let kinds: Vec<_> = new().map(|new| new.kind.name()).collect();
        let titles: Vec<_> = new().map(|new| new.title.as_str()).collect();
        let abouts: Vec<_> = new().map(|new| text(&new.about)).collect();
        let times: Vec<_> = new().map(|new| new.version.at.as_micros()).collect();
        link.execute(INSERT, &[&ids, &tenants, &kinds, &titles, &abouts, &times]).await.map(drop)
    }

    async fn write_versions(&self, link: &Link) -> Result<(), DbError> {
        if self.versions.is_empty() {
            return Ok(());
        }
        let all = || self.versions.iter();
        let ids: Vec<_> = all().map(|(_, id, ..)| id.0).collect();
        let numbers: Vec<_> = all().map(|(_, _, number, _)| i64::from(*number)).collect();
        let tenants: Vec<_> = all().map(|(tenant, ..)| *tenant).collect();
        let version = || all().map(|(.., version)| *version);
        let digests: Vec<_> = version().map(|v| v.digest.as_bytes().as_slice()).collect();
        let sizes: Vec<_> = version().map(|v| v.size.cast_signed()).collect();
        let times: Vec<_> = version().map(|v| v.at.as_micros()).collect();
        let calls: Vec<_> = version().map(|v| v.call.map(|call| call.0)).collect();
        let abouts: Vec<_> = version().map(|v| text(&v.about)).collect();
        link.execute(
            INSERT_VERSIONS,
            &[&ids, &numbers, &tenants, &digests, &sizes, &times, &calls, &abouts],
        )
        .await
        .map(drop)
    }
}

/// Text of a description, which is plain data.
fn text<T: serde::Serialize>(about: &T) -> String {
    encoding::json(about).unwrap_or_default()
}

/// Adds words by which artifacts are found: tenant, word, artifact.
async fn write_marks(link: &Link, marks: &[(&str, String, Uuid)]) -> Result<(), DbError> {
    if marks.is_empty() {
        return Ok(());
    }
    let tenants: Vec<_> = marks.iter().map(|mark| mark.0).collect();
    let words: Vec<_> = marks.iter().map(|mark| mark.1.as_str()).collect();
    let ids: Vec<_> = marks.iter().map(|mark| mark.2).collect();
    link.execute(INSERT_MARKS, &[&tenants, &words, &ids]).await.map(drop)
}

/// Changes the totals of tenants: artifacts, versions, bytes.
async fn count(link: &Link, counts: &[(&str, i64, i64, i64)]) -> Result<(), DbError> {
    if counts.is_empty() {
        return Ok(());
    }
    let tenants: Vec<_> = counts.iter().map(|count| count.0).collect();
    let artifacts: Vec<_> = counts.iter().map(|count| count.1).collect();
    let versions: Vec<_> = counts.iter().map(|count| count.2).collect();
    let bytes: Vec<_> = counts.iter().map(|count| count.3).collect();
    link.execute(COUNT, &[&tenants, &artifacts, &versions, &bytes]).await.map(drop)
}

/// Refuses texts of a change that PostgreSQL would refuse.
pub(super) fn check(new: &NewArtifact) -> Result<(), Error> {
    check_text(&new.title)?;
    new.marks().iter().try_for_each(|mark| check_text(mark))?;
    check_text(&text(&new.about))
}

pub(super) async fn change(
    pool: &Pool,
    large: &dyn LargeBlobs,
    tenant: &TenantId,
    change: ArtifactChange,
) -> Result<ArtifactChanged, Error> {
    let bytes = match &change {
        ArtifactChange::Create { artifact, bytes } => {
            check(artifact)?;
            Some(bytes)
        }
        ArtifactChange::AddVersion { bytes, .. } => bytes.as_ref(),
        _ => None,
    };
    if let Some(bytes) = bytes.filter(|bytes| bytes.len() > MAX_INLINE) {
        blobs::put(pool, large, Digest::of(bytes), bytes.clone()).await?;
    }
    let link = Link::open(pool.url()).await?;
    link.batch("BEGIN").await?;
    let target = Target { link: &link, tenant: tenant.as_str() };
    let changed = target.make(&change, bytes.map(Vec::as_slice)).await?;
    // A connection that is dropped within a transaction rolls it back.
    if matches!(changed, ArtifactChanged::Done { .. }) {
        link.batch("COMMIT").await?;
    }
    Ok(changed)
}

/// Artifacts of a tenant, within a transaction.
struct Target<'a> {
    link: &'a Link,
    tenant: &'a str,
}

impl Target<'_> {
    async fn make(
        &self,
        change: &ArtifactChange,
        bytes: Option<&[u8]>,
    ) -> Result<ArtifactChanged, Error> {
        let done = |version, verdict| Ok(ArtifactChanged::Done { version, verdict });
        let id = match change {
            ArtifactChange::Create { artifact, .. } => {
                self.put(artifact.id, artifact.version.digest, bytes).await?;
                let mut rows = NewRows::default();
                rows.add(self.tenant, artifact);
                rows.write(self.link).await?;
                return done(1, 0);
            }
            ArtifactChange::AddVersion { id, .. }
            | ArtifactChange::AddVerdict { id, .. }
            | ArtifactChange::AddLabels { id, .. }
            | ArtifactChange::Remove { id } => *id,
        };
        // The row is locked, so that versions and verdicts have their numbers in turn.
        let sql = "SELECT newest FROM artifacts WHERE id = $1 AND tenant = $2 FOR UPDATE";
        let Some(row) = self.link.first(sql, &[&id.0, &self.tenant]).await? else {
            return Ok(ArtifactChanged::NotFound);
        };
        let newest = number(row.try_get(0)?);
        match change {
            ArtifactChange::AddVersion { after: Some(after), .. } if *after != newest => {
                Ok(ArtifactChanged::NotNewest(newest))
            }
            ArtifactChange::AddVersion { version, .. } => {
                if bytes.is_none() && !self.has(id, version.digest).await? {
                    return Ok(ArtifactChanged::NotFound);
                }
                self.put(id, version.digest, bytes).await?;
                let mut rows = NewRows::default();
                rows.add_version(self.tenant, id, newest + 1, version);
                rows.write(self.link).await?;
                let sql = "UPDATE artifacts SET newest = $2 WHERE id = $1";
                self.link.execute(sql, &[&id.0, &i64::from(newest + 1)]).await?;
                done(newest + 1, 0)
            }
            ArtifactChange::AddVerdict { version: Some(version), .. }
                if !(1..=newest).contains(version) =>
            {
                Ok(ArtifactChanged::NotFound)
            }
            ArtifactChange::AddVerdict { version, at, about, .. } => {
                let version = version.unwrap_or(newest);
                let sql = "INSERT INTO artifact_verdicts (artifact, version, number, at, about)
                    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4 FROM artifact_verdicts
                    WHERE artifact = $1 AND version = $2 RETURNING number";
                let about = encoding::json(about)?;
                check_text(&about)?;
                let (of, at) = (i64::from(version), at.as_micros());
                let row = self.link.one(sql, &[&id.0, &of, &at, &about]).await?;
                done(version, number(row.try_get(0)?))
            }
            ArtifactChange::AddLabels { labels, .. } => {
                self.add_labels(id, labels).await?;
                done(newest, 0)
            }
            ArtifactChange::Create { .. } | ArtifactChange::Remove { .. } => {
                self.remove(id).await?;
                done(newest, 0)
            }
        }
    }

    async fn has(&self, id: ArtifactId, digest: Digest) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM artifact_versions WHERE artifact = $1 AND digest = $2 LIMIT 1";
        let digest = digest.as_bytes().as_slice();
        Ok(self.link.first(sql, &[&id.0, &digest]).await?.is_some())
    }

    /// Bytes of a version, and the artifact as their owner. Large ones are in their store already.
    async fn put(&self, id: ArtifactId, digest: Digest, bytes: Option<&[u8]>) -> Result<(), Error> {
        let digests = [digest.as_bytes().as_slice()];
        let digests = digests.as_slice();
        self.link.execute(REUSE_BLOBS, &[&digests]).await?;
        if let Some(bytes) = bytes {
            let (sizes, small) =
                ([bytes.len() as i64], [Some(bytes).filter(|bytes| bytes.len() <= MAX_INLINE)]);
            let (sizes, small) = (sizes.as_slice(), small.as_slice());
            self.link.execute(INSERT_BLOBS, &[&digests, &sizes, &small]).await?;
        }
        let (kind, owner) = BlobOwner::Artifact(id).columns();
        let (kinds, owners) = ([kind], [owner]);
        let (kinds, owners) = (kinds.as_slice(), owners.as_slice());
        self.link.execute(INSERT_BLOB_USES, &[&digests, &kinds, &owners]).await?;
        Ok(())
    }

    async fn add_labels(&self, id: ArtifactId, labels: &[String]) -> Result<(), Error> {
        let sql = "SELECT version, about FROM artifact_versions WHERE artifact = $1";
        for row in self.link.query(sql, &[&id.0]).await? {
            let about = rows::whole(&row, ("artifact_versions", 0), |row| {
                rows::parsed::<VersionAbout>(row, 1)
            })?;
            let Some(about) = artifact::with_labels(&about, labels) else { continue };
            let sql =
                "UPDATE artifact_versions SET about = $3 WHERE artifact = $1 AND version = $2";
            let version: i64 = row.try_get(0)?;
            self.link.execute(sql, &[&id.0, &version, &text(&about)]).await?;
        }
        let mark = |label: &String| (self.tenant, artifact::label_mark(label), id.0);
        write_marks(self.link, &labels.iter().map(mark).collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn remove(&self, id: ArtifactId) -> Result<(), Error> {
        let sql = "WITH gone AS (DELETE FROM artifact_versions WHERE artifact = $1 RETURNING size)
            SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone";
        let row = self.link.one(sql, &[&id.0]).await?;
        let (versions, bytes): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        for sql in [
            "DELETE FROM artifact_verdicts WHERE artifact = $1",
            "DELETE FROM artifact_marks WHERE artifact = $1",
            "DELETE FROM artifacts WHERE id = $1",
        ] {
            self.link.execute(sql, &[&id.0]).await?;
        }
        blob_uses::release_in(self.link, &[BlobOwner::Artifact(id)]).await?;
        count(self.link, &[(self.tenant, -1, -versions, -bytes)]).await?;
        Ok(())
    }
}

fn number(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Columns that [`of_row`] reads.
const COLUMNS: &str = "artifacts.id, artifacts.tenant, artifacts.kind, artifacts.title, \
    artifacts.about, artifacts.created_at, artifacts.newest";

fn of_row(row: &Row) -> Result<Artifact, Undecodable> {
    Ok(Artifact {
        id: ArtifactId(row.try_get(0)?),
        tenant: rows::name(row, 1)?,
        kind: rows::name(row, 2)?,
        title: row.try_get(3)?,
        about: rows::parsed(row, 4)?,
        created_at: rows::timestamp(row, 5)?,
        newest: number(row.try_get(6)?),
    })
}

/// Columns that [`version_of_row`] reads.
const VERSION_COLUMNS: &str = "version, digest, size, at, call, about";

fn version_of_row(row: &Row) -> Result<ArtifactVersion, Undecodable> {
    Ok(ArtifactVersion {
        number: number(row.try_get(0)?),
        content: NewVersion {
            digest: rows::digest(row, 1)?,
            size: rows::unsigned(row, 2)?,
            at: rows::timestamp(row, 3)?,
            call: row.try_get::<_, Option<Uuid>>(4)?.map(CallId),
            about: rows::parsed(row, 5)?,
        },
    })
}

pub(super) async fn one(
    pool: &Pool,
    tenant: &TenantId,
    id: ArtifactId,
) -> Result<Option<Artifact>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!("SELECT {COLUMNS} FROM artifacts WHERE id = $1 AND tenant = $2");
    let row = link.first(&sql, &[&id.0, &tenant.as_str()]).await?;
    row.map(|row| rows::whole(&row, ("artifacts", 0), of_row)).transpose()
}

pub(super) async fn list(pool: &Pool, query: ArtifactQuery) -> Result<ArtifactPage, Error> {
    let tenant = query.tenant.as_str();
    let link = &*pool.read_for(tenant).await?;
    let marks = query.marks();
    marks.iter().try_for_each(|mark| check_text(mark))?;
    let (first, others) = match marks.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, &[][..]),
    };
    let from = match first {
        Some(_) => {
            "artifact_marks JOIN artifacts ON artifacts.id = artifact_marks.artifact
             WHERE artifact_marks.tenant = $1 AND artifact_marks.mark = $2"
        }
        None => "artifacts WHERE artifacts.tenant = $1 AND $2::text IS NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM {from} AND ($3::uuid IS NULL OR artifacts.id < $3)
         ORDER BY artifacts.id DESC LIMIT $4"
    );
    let before = query.before.map(|id| id.0);
    let found = link.query(&sql, &[&tenant, &first, &before, &(VISITED as i64)]).await?;
    let visited = rows::readable(&found, ("artifacts", 0), of_row);
    let mut page = ArtifactPage::of(&query, visited);
    for mark in others {
        let ids: Vec<_> = page.artifacts.iter().map(|artifact| artifact.id.0).collect();
        let sql = "SELECT artifact FROM artifact_marks
            WHERE tenant = $1 AND mark = $2 AND artifact = ANY($3)";
        let found = link.query(sql, &[&tenant, &mark, &ids]).await?;
        let kept = found.iter().map(|row| row.try_get(0));
        let kept: std::collections::HashSet<Uuid> = kept.collect::<Result<_, _>>()?;
        page.artifacts.retain(|artifact| kept.contains(&artifact.id.0));
    }
    Ok(page)
}

pub(super) async fn versions(
    pool: &Pool,
    tenant: &TenantId,
    id: ArtifactId,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<ArtifactVersion>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!(
        "SELECT {VERSION_COLUMNS} FROM artifact_versions WHERE artifact = $1 AND tenant = $2
         AND ($3::bigint IS NULL OR version < $3) ORDER BY version DESC LIMIT $4"
    );
    let before = before.map(i64::from);
    let found = link.query(&sql, &[&id.0, &tenant.as_str(), &before, &page(limit)]).await?;
    let read = |row: &Row| rows::whole(row, ("artifact_versions", 0), version_of_row);
    found.iter().map(read).collect()
}

pub(super) async fn version(
    pool: &Pool,
    tenant: &TenantId,
    wanted: ArtifactRef,
) -> Result<Option<(ArtifactId, ArtifactVersion)>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let select = format!("SELECT {VERSION_COLUMNS}, artifact FROM artifact_versions");
    let tenant = tenant.as_str();
    let row = match wanted {
        ArtifactRef::Content(digest) => {
            let sql = format!(
                "{select} WHERE tenant = $1 AND digest = $2
                 ORDER BY artifact DESC, version DESC LIMIT 1"
            );
            link.first(&sql, &[&tenant, &digest.as_bytes().as_slice()]).await?
        }
        ArtifactRef::Version(id, number) => {
            let sql = format!(
                "{select} WHERE artifact = $1 AND tenant = $2
                 AND ($3::bigint IS NULL OR version = $3) ORDER BY version DESC LIMIT 1"
            );
            link.first(&sql, &[&id.0, &tenant, &number.map(i64::from)]).await?
        }
    };
    let read = |row: Row| {
        rows::whole(&row, ("artifact_versions", 0), |row| {
            Ok((ArtifactId(row.try_get(6)?), version_of_row(row)?))
        })
    };
    row.map(read).transpose()
}

pub(super) async fn labels(
    pool: &Pool,
    tenant: &TenantId,
    digest: Digest,
) -> Result<Vec<String>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT DISTINCT about FROM artifact_versions WHERE tenant = $1 AND digest = $2";
    let mut all = Vec::new();
    for row in link.query(sql, &[&tenant.as_str(), &digest.as_bytes().as_slice()]).await? {
        let read = |row: &Row| rows::parsed::<VersionAbout>(row, 0);
        all.extend(rows::whole(&row, ("artifact_versions", 0), read)?.labels);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

pub(super) async fn verdicts(
    pool: &Pool,
    tenant: &TenantId,
    id: ArtifactId,
    limit: usize,
) -> Result<Vec<ArtifactVerdict>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT version, number, at, artifact_verdicts.about FROM artifact_verdicts
        JOIN artifacts ON artifacts.id = artifact WHERE artifact = $1 AND tenant = $2
        ORDER BY version DESC, number DESC LIMIT $3";
    let found = link.query(sql, &[&id.0, &tenant.as_str(), &page(limit)]).await?;
    let verdict = |row: &Row| {
        Ok(ArtifactVerdict {
            version: number(row.try_get(0)?),
            number: number(row.try_get(1)?),
            at: rows::timestamp(row, 2)?,
            about: rows::parsed(row, 3)?,
        })
    };
    found.iter().map(|row| rows::whole(row, ("artifact_verdicts", 0), verdict)).collect()
}

pub(super) async fn totals(pool: &Pool, tenant: &TenantId) -> Result<ArtifactTotals, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT artifacts, versions, bytes FROM artifact_totals WHERE tenant = $1";
    let Some(row) = link.first(sql, &[&tenant.as_str()]).await? else {
        return Ok(ArtifactTotals::default());
    };
    let read = |row: &Row| {
        Ok(ArtifactTotals {
            artifacts: rows::unsigned(row, 0)?,
            versions: rows::unsigned(row, 1)?,
            bytes: rows::unsigned(row, 2)?,
        })
    };
    rows::whole(&row, ("artifact_totals", 0), read)
}

/// One query for each level of the walk.
pub(super) async fn lineage(pool: &Pool, query: LineageQuery) -> Result<Lineage, Error> {
    let tenant = query.tenant.as_str();
    let link = &*pool.read_for(tenant).await?;
    let mut walk = Walk::new(&query);
    let sql = match walk.direction {
        LineageDirection::Backward => {
            "SELECT node, cause, relation FROM lineage WHERE tenant = $1 AND node = ANY($2)
             ORDER BY node, cause, relation LIMIT $3"
        }
        LineageDirection::Forward => {
            "SELECT node, cause, relation FROM lineage WHERE tenant = $1 AND cause = ANY($2)
             ORDER BY cause, node, relation LIMIT $3"
        }
    };
    'levels: while let Some(keys) = walk.next() {
        for row in link.query(sql, &[&tenant, &keys, &(walk.room() as i64)]).await? {
            if !walk.take(rows::whole(&row, ("lineage", 0), edge)?) {
                break 'levels;
            }
        }
    }
    Ok(walk.done())
}

fn edge(row: &Row) -> Result<LineageEdge, Undecodable> {
    let node = |index| {
        let key: &[u8] = row.try_get(index)?;
        LineageNode::of_key(key).ok_or_else(|| Undecodable::from("not a node of the lineage"))
    };
    let relation = LineageRelation::of_number(row.try_get(2)?);
    let relation = relation.ok_or("not a relation of the lineage")?;
    Ok(LineageEdge { node: node(0)?, cause: node(1)?, relation })
}
