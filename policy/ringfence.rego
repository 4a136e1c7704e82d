# The rules of Ringfence when nobody says otherwise.
#
# Calls of tools come first; what else is asked about is at the end. A tool says by safety flags what it may do. Each flag has one rule below, with a sentence that
# says what would change it. With several flags the strictest wins, and the reasons of all are
# listed. A tool without flags says nothing of what it does, so a person decides.
package ringfence

# Nothing is allowed that no rule allows.
default decision := {
	"decision": "deny",
	"reasons": [{"rule": "default", "message": "no rule allows this call"}],
}

decision := {"decision": "deny", "reasons": reasons} if {
	count(denials) > 0
} else := {"decision": "hold", "reasons": reasons} if {
	count(holds) > 0
} else := {"decision": "allow", "reasons": reasons} if {
	count(allowances) > 0
}

reasons := (denials | holds) | allowances

# Only what runs is judged by its flags.
flags := input.tool.safety_flags if input.action == "tool.execute"

# Allowed.

allowances contains {
	"rule": "none",
	"message": "the tool has no effect outside its sandbox",
} if {
	"none" in flags
}

allowances contains {
	"rule": "pii_risk",
	"message": "the tool may see personal data, which stays in its sandbox and its result",
} if {
	"pii_risk" in flags
}

allowances contains {
	"rule": "file_system",
	"message": "the tool uses files, and only the workspace of its own sandbox is reachable",
} if {
	"file_system" in flags
}

# Held until a person approves.

holds contains {
	"rule": "no_flags",
	"message": "the tool does not say what it does (`safety_flags`): a person must approve the call",
} if {
	count(flags) == 0
	not approved
}

holds contains {
	"rule": "side_effect",
	"message": "the tool changes something outside its sandbox: a person must approve the call",
} if {
	"side_effect" in flags
	not approved
}

holds contains {
	"rule": "external_call",
	"message": "the tool calls another service: a person must approve the call",
} if {
	"external_call" in flags
	not approved
}

holds contains {
	"rule": "network_access",
	"message": "the tool uses the network: a person must approve the call",
} if {
	"network_access" in flags
	not approved
}

holds contains {"rule": "network_hosts", "message": message} if {
	count(input.network) > 0
	not approved
	hosts := concat("`, `", [substring(host, 0, 100) | some host in array.slice(input.network, 0, 8)])
	message := sprintf("the call asks for network access to `%s`: a person must approve it", [hosts])
}

holds contains {
	"rule": "requires_approval",
	"message": "the tool asks for a person to approve every call of it",
} if {
	input.action == "tool.execute"
	input.tool.requires_approval
	not approved
}

# An approval is in the document only if it applies to exactly this call. It lifts what is held and
# nothing that is denied.

approved if input.approval != null

allowances contains {
	"rule": "approved",
	"message": "whoever may approve has approved exactly this call",
} if {
	input.action in {"tool.execute", "sandbox.create"}
	approved
}

# Denied.

known := {
	"none", "pii_risk", "file_system",
	"side_effect", "external_call", "network_access",
}

# Flags come from whoever wrote the tool: long ones are cut and many are not all named.
unknown := [substring(flag, 0, 40) | some flag in flags; not flag in known]

denials contains {"rule": "unknown_flag", "message": message} if {
	count(unknown) > 0
	names := concat("`, `", array.slice(unknown, 0, 4))
	message := sprintf("no rule knows the safety flag `%s`: write one, or remove the flag", [names])
}

# What is not a call of a tool.

allowances contains {
	"rule": "sandbox",
	"message": "a sandbox has no effect outside itself",
} if {
	input.action == "sandbox.create"
}

allowances contains {
	"rule": "conversation",
	"message": "what is said in a conversation stays in it",
} if {
	input.action == "conversation.send"
}

allowances contains {
	"rule": "memory",
	"message": "nothing that is to be remembered comes from where nobody can vouch for it",
} if {
	input.action == "memory.write"
	count(input.taint) == 0
}

holds contains {
	"rule": "tainted_memory",
	"message": "what is to be remembered came from outside: a person must approve it",
} if {
	input.action == "memory.write"
	count(input.taint) > 0
}

administration := {"tool.install", "tool.remove", "settings.update"}

allowances contains {
	"rule": "administration",
	"message": "the key has the scope `admin`",
} if {
	input.action in administration
	"admin" in input.principal.scopes
}

denials contains {
	"rule": "administration",
	"message": "tools and settings are changed by keys with the scope `admin`",
} if {
	input.action in administration
	not "admin" in input.principal.scopes
}
