-- Tokens of model servers, beside what calls take otherwise.
ALTER TABLE usage ADD COLUMN input_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN output_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE budgets ADD COLUMN tokens bigint;
