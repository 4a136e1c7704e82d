"""The envelopes, the log and the checkpoint of a real server, checked by others' means.

securesystemslib verifies the envelopes, in-toto-attestation reads the statements, and a tree and a
signed note are checked here from their specifications, without a line of ours.
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import unittest
import urllib.request

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

BINARY = os.environ["RINGFENCE_BINARY"]
STEP_TIMEOUT = 60


class Server:
    """`ringfence serve` in a directory of its own."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="ringfence-attest-")
        data = os.path.join(self.dir.name, "data")
        self.log = open(os.path.join(self.dir.name, "log"), "wb")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", data],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
        )
        line = self.process.stdout.readline()
        assert line, "no server came up"
        self.url = json.loads(line)["url"]
        with open(os.path.join(data, "admin.key")) as file:
            self.key = file.read().strip()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=STEP_TIMEOUT) as answer:
            return answer.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(STEP_TIMEOUT)
        self.process.stdout.close()
        self.log.close()
        self.dir.cleanup()


def key_of(listed):
    """The key as securesystemslib knows it, from its public half alone."""
    value = {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": listed["public"]}}
    return SSlibKey.from_dict(listed["keyid"], value)


def leaf(data):
    return hashlib.sha256(b"\x00" + data).digest()


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves):
    """RFC 6962, section 2.1, as it is written there."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node(root(leaves[:split]), root(leaves[split:]))


def root_from(index, size, hash_, proof):
    """RFC 6962, section 2.1.1, the other way round."""
    if size == 1:
        assert not proof
        return hash_
    split = 1
    while split * 2 < size:
        split *= 2
    if index < split:
        return node(root_from(index, split, hash_, proof[:-1]), proof[-1])
    return node(proof[-1], root_from(index - split, size - split, hash_, proof[:-1]))


def encoded(envelope):
    """DSSE's pre-authentication encoding: what is signed, and what is a leaf of the log."""
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


class Attestations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        calls = [
            {"tool": "echo", "args": {"text": "hello"}, "session_id": "s"},
            {"tool": "text_summarize", "args": {"text": "One. Two."}, "session_id": "s"},
            # Held by the built-in rules, so that a decision stands alone.
            {"tool": "http_fetch", "args": {"url": "https://example.com/"}, "session_id": "s"},
        ]
        made = [json.loads(cls.server.ask("/v1/calls", call)) for call in calls]
        cls.call = made[0]["id"]
        cls.bundle = json.loads(cls.server.ask("/v1/sessions/s/proof?artifacts=true"))
        cls.keys = json.loads(cls.server.ask("/v1/ledger/keys"))
        cls.items = cls.bundle["keys"] + cls.bundle["entries"]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def envelopes(self):
        # The library changes what it is given.
        return [json.loads(json.dumps(item["envelope"])) for item in self.items]

    def test_securesystemslib_verifies_every_envelope_unchanged(self):
        key = key_of(self.keys["keys"][0])
        self.assertGreaterEqual(len(self.items), 4)
        for wire in self.envelopes() + [json.loads(json.dumps(self.bundle["manifest"]))]:
            accepted = Envelope.from_dict(wire).verify([key], 1)
            self.assertEqual(list(accepted), [key.keyid])

    def test_securesystemslib_verifies_a_receipt_by_itself(self):
        key = key_of(self.keys["keys"][0])
        wire = json.loads(self.server.ask(f"/v1/calls/{self.call}/receipt?format=dsse"))
        envelope = Envelope.from_dict(wire)
        self.assertEqual(list(envelope.verify([key], 1)), [key.keyid])
        self.assertEqual(json.loads(envelope.payload)["predicate"]["call"], self.call)

    def test_securesystemslib_refuses_what_was_changed(self):
        key = key_of(self.keys["keys"][0])
        for wire in self.envelopes():
            envelope = Envelope.from_dict(wire)
            envelope.payload = envelope.payload.replace(b"ringfence", b"ringfense", 1)
            with self.assertRaises(VerificationError):
                envelope.verify([key], 1)

    def test_a_key_id_is_the_one_that_securesystemslib_gives(self):
        listed = self.keys["keys"][0]
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(listed["public"]))
        self.assertEqual(SSlibKey.from_crypto(public).keyid, listed["keyid"])

    def test_in_toto_reads_every_statement(self):
        kinds = set()
        for wire in self.envelopes():
            text = base64.b64decode(wire["payload"])
            parsed = json_format.Parse(text, statement_pb2.Statement())
            Statement.copy_from_pb(parsed).validate()
            self.assertTrue(parsed.predicate_type.startswith("https://ringfence.dev/attestation/"))
            kinds.add(parsed.predicate_type.split("/")[-2])
        self.assertEqual(kinds, {"call", "decision", "checkpoint-key"})

    def test_the_tree_holds_by_its_definition(self):
        origin, size, hash_ = self.bundle["checkpoint"].split("\n")[:3]
        self.assertEqual(origin, self.keys["origin"])
        size, wanted = int(size), base64.b64decode(hash_)
        for item in self.items:
            proof = [base64.b64decode(text) for text in item["proof"]]
            found = root_from(item["index"], size, leaf(encoded(item["envelope"])), proof)
            self.assertEqual(found, wanted, item["index"])
        tile = self.server.ask(f"/v1/ledger/tile/0/000.p/{size}")
        leaves = [tile[at:at + 32] for at in range(0, len(tile), 32)]
        self.assertEqual(root(leaves), wanted)
        self.assertEqual(leaves[0], leaf(encoded(self.bundle["keys"][0]["envelope"])))

    def test_the_checkpoint_is_a_signed_note_by_its_specification(self):
        text, signature = self.bundle["checkpoint"].split("\n\n")
        dash, name, body = signature.strip().split(" ")
        body, public = base64.b64decode(body), bytes.fromhex(self.keys["keys"][0]["public"])
        self.assertEqual((dash, name), ("\u2014", self.keys["origin"]))
        self.assertEqual(body[:4], hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4])
        Ed25519PublicKey.from_public_bytes(public).verify(body[4:], (text + "\n").encode())
        vkey = self.keys["keys"][0]["vkey"].split("+", 2)
        self.assertEqual(vkey[:2], [name, body[:4].hex()])
        self.assertEqual(base64.b64decode(vkey[2]), b"\x01" + public)

    def test_artifacts_have_the_digests_that_the_statements_name(self):
        named = json.dumps([base64.b64decode(e["payload"]).decode() for e in self.envelopes()])
        self.assertGreaterEqual(len(self.bundle["artifacts"]), 4)
        for artifact in self.bundle["artifacts"]:
            digest = hashlib.sha256(base64.b64decode(artifact["bytes"])).hexdigest()
            self.assertEqual(artifact["digest"], f"sha256:{digest}")
            self.assertIn(digest, named)


if __name__ == "__main__":
    unittest.main()
