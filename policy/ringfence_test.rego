package ringfence_test

import data.ringfence

decided(flags) := decision if {
	tool := {"safety_flags": flags, "requires_approval": false}
	decision := ringfence.decision with input as {"action": "tool.execute", "tool": tool}
}

# Of an action that runs no tool.
asked(action, scopes, taint) := decision if {
	tool := {"safety_flags": ["telepathy"], "requires_approval": true}
	principal := {"scopes": scopes}
	document := {"action": action, "principal": principal, "taint": taint, "tool": tool}
	decision := ringfence.decision with input as document
}

rules(decision) := {reason.rule | some reason in decision.reasons}

test_harmless_flags_are_allowed if {
	every flag in ["none", "pii_risk", "file_system"] {
		decided([flag]).decision == "allow"
		rules(decided([flag])) == {flag}
	}
}

test_no_flags_are_held if {
	decided([]).decision == "hold"
	rules(decided([])) == {"no_flags"}
	approved([]).decision == "allow"
}

test_what_reaches_out_is_held if {
	every flag in ["side_effect", "external_call", "network_access"] {
		decided([flag]).decision == "hold"
		rules(decided([flag])) == {flag}
	}
}

# Of a call or a sandbox that asks for hosts.
networked(action, approval) := decision if {
	tool := {"safety_flags": ["none"], "requires_approval": false}
	network := ["a.example", "b.example:8443"]
	document := {"action": action, "approval": approval, "network": network, "tool": tool}
	decision := ringfence.decision with input as document
}

test_hosts_are_held_by_name_and_granted_by_approval if {
	every action in ["tool.execute", "sandbox.create"] {
		networked(action, null).decision == "hold"
		"network_hosts" in rules(networked(action, null))
		networked(action, {"id": "x"}).decision == "allow"
	}
	some reason in networked("tool.execute", null).reasons
	contains(reason.message, "`a.example`, `b.example:8443`")
}

test_an_unknown_flag_is_denied_by_name if {
	decided(["telepathy"]).decision == "deny"
	some reason in decided(["telepathy"]).reasons
	contains(reason.message, "`telepathy`")
}

test_a_flag_is_known_only_as_it_is_written if {
	every flag in ["None", "none ", "", "NONE"] {
		decided([flag]).decision == "deny"
	}
}

test_the_strictest_wins_and_all_reasons_are_listed if {
	decided(["none", "side_effect"]).decision == "hold"
	rules(decided(["none", "side_effect"])) == {"none", "side_effect"}
	decided(["network_access", "telepathy", "none"]).decision == "deny"
	rules(decided(["network_access", "telepathy", "none"])) == {"network_access", "unknown_flag", "none"}
}

test_a_tool_that_asks_for_approval_is_held if {
	tool := {"safety_flags": ["none"], "requires_approval": true}
	decision := ringfence.decision with input as {"action": "tool.execute", "tool": tool}
	decision.decision == "hold"
	rules(decision) == {"none", "requires_approval"}
}

test_a_document_without_a_tool_is_denied if {
	decision := ringfence.decision with input as {}
	decision.decision == "deny"
	rules(decision) == {"default"}
}

approved(flags) := decision if {
	tool := {"safety_flags": flags, "requires_approval": true}
	decision := ringfence.decision with input as {"action": "tool.execute", "tool": tool, "approval": {"by": ["019a8b7c-1234-7abc-8def-000000000001"]}}
}

test_an_approval_lifts_a_hold if {
	every flag in ["side_effect", "external_call", "network_access", "none"] {
		approved([flag]).decision == "allow"
		"approved" in rules(approved([flag]))
	}
}

test_an_approval_lifts_no_denial if {
	approved(["telepathy"]).decision == "deny"
}

test_no_approval_is_none if {
	tool := {"safety_flags": ["side_effect"], "requires_approval": false}
	decision := ringfence.decision with input as {"action": "tool.execute", "tool": tool, "approval": null}
	decision.decision == "hold"
}

test_an_action_that_nobody_knows_is_denied if {
	every action in ["tool.request", "TOOL.EXECUTE", ""] {
		asked(action, ["admin"], []).decision == "deny"
		rules(asked(action, ["admin"], [])) == {"default"}
	}
}

test_a_sandbox_may_be_made if {
	asked("sandbox.create", ["call"], []).decision == "allow"
	rules(asked("sandbox.create", ["call"], [])) == {"sandbox"}
}

test_something_may_be_said if {
	asked("conversation.send", ["call"], ["web"]).decision == "allow"
	rules(asked("conversation.send", ["call"], ["web"])) == {"conversation"}
}

test_what_is_remembered_must_not_come_from_outside if {
	asked("memory.write", ["call"], []).decision == "allow"
	asked("memory.write", ["call"], ["web"]).decision == "hold"
	rules(asked("memory.write", ["call"], ["web"])) == {"tainted_memory"}
}

test_only_an_admin_changes_tools_and_settings if {
	every action in ["tool.install", "tool.remove", "settings.update"] {
		asked(action, ["admin"], []).decision == "allow"
		asked(action, ["call", "read", "approve"], []).decision == "deny"
		rules(asked(action, ["call"], [])) == {"administration"}
	}
}
