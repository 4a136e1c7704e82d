-- Approvals and keys are listed by tenant; what is few needs no more than that.
CREATE INDEX approvals_by_tenant ON approvals (tenant, id);
CREATE INDEX approvals_of_tool ON approvals (tenant, tool, id);
DROP INDEX approvals_by_tool;
CREATE INDEX keys_by_tenant ON keys (tenant, created_at, id);
