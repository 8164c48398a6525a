#!/usr/bin/env python3
"""Checks Prio3 test vectors with a second implementation, written for clarity, not speed.

    python3 check.py FILE...

Every value in a file (public, input, verifier, output and aggregate shares, verifier messages,
result) is computed again from its inputs, and an operation marked unsuccessful must fail. It
knows the VDAFs whose circuit is a range check of many elements over Field128: Prio3SumVec,
Prio3Histogram, Prio3MultihotCountVec and Prio3L1BoundSum. The first three have published vectors,
which show that this program is right; it then vouches for the vectors of the fourth in this
folder. Standard library only.
"""

import json
import os
import sys

# --- TurboSHAKE128 and the XOF over it -------------------------------------------------------

ROUND_CONSTANTS = [
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
]
MASK = (1 << 64) - 1
RATE = 168


def rotate(x, n):
    n %= 64
    return ((x << n) | (x >> (64 - n))) & MASK


def keccak_p12(a):
    """Keccak-p[1600, 12] on 25 lanes, lane (x, y) at x + 5 y."""
    for constant in ROUND_CONSTANTS:
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        d = [c[(x - 1) % 5] ^ rotate(c[(x + 1) % 5], 1) for x in range(5)]
        a = [a[i] ^ d[i % 5] for i in range(25)]
        b = [0] * 25
        x, y, current = 1, 0, a[1]
        b[0] = a[0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            b[x + 5 * y], current = rotate(current, (t + 1) * (t + 2) // 2), a[x + 5 * y]
        a = [b[i] ^ (~b[i // 5 * 5 + (i + 1) % 5] & b[i // 5 * 5 + (i + 2) % 5]) for i in range(25)]
        a[0] ^= constant
    return a


def turboshake128(message, domain):
    """Yields the output, byte by byte."""
    data = bytearray(message) + bytes([domain])
    data += bytes(-len(data) % RATE)
    data[-1] ^= 0x80
    state = [0] * 25
    for start in range(0, len(data), RATE):
        for lane in range(RATE // 8):
            at = start + 8 * lane
            state[lane] ^= int.from_bytes(data[at : at + 8], "little")
        state = keccak_p12(state)
    while True:
        for lane in range(RATE // 8):
            yield from state[lane].to_bytes(8, "little")
        state = keccak_p12(state)


def xof(seed, dst, binder):
    message = len(dst).to_bytes(2, "little") + dst + bytes([len(seed)]) + seed + binder
    return turboshake128(message, 1)


def take(stream, count):
    return bytes(next(stream) for _ in range(count))


# --- Field128 ----------------------------------------------------------------------------------

P = 2**66 * 4611686018427387897 + 1
SIZE = 16


def random_elements(stream, count):
    elements = []
    while len(elements) < count:
        element = int.from_bytes(take(stream, SIZE), "little")
        if element < P:
            elements.append(element)
    return elements


def encode(elements):
    return b"".join(element.to_bytes(SIZE, "little") for element in elements)


def decode(data):
    elements = [int.from_bytes(data[i : i + SIZE], "little") for i in range(0, len(data), SIZE)]
    assert len(data) % SIZE == 0 and all(element < P for element in elements)
    return elements


def inverse(x):
    return pow(x, -1, P)


def root(order):
    """A primitive root of unity; the order is a power of two."""
    return pow(pow(7, 4611686018427387897, P), 2**66 // order, P)


def interpolate(points, values, at):
    """The polynomial through the points, evaluated. Textbook Lagrange."""
    total = 0
    for i, (x, y) in enumerate(zip(points, values)):
        numerator, denominator = y, 1
        for j, other in enumerate(points):
            if i != j:
                numerator = numerator * (at - other) % P
                denominator = denominator * (x - other) % P
        total += numerator * inverse(denominator)
    return total % P


def next_power_of_two(n):
    return 1 << (n - 1).bit_length()


# --- Circuits ----------------------------------------------------------------------------------


def weights(max_value):
    """Weights of the digits of a number in 0..=max_value: powers of two, and a last one so that
    all digits one is max_value."""
    bits = max_value.bit_length()
    return [1 << i for i in range(bits - 1)] + [max_value - (1 << (bits - 1)) + 1]


def digits(value, max_value):
    *low, last = weights(max_value)
    high = int(value > sum(low))
    rest = value - high * last
    assert 0 <= rest <= sum(low), "value out of range"
    return [(rest >> i) & 1 for i in range(len(low))] + [high]


def number(elements, max_value):
    return sum(w * e for w, e in zip(weights(max_value), elements)) % P


def split(elements, size):
    return [elements[i : i + size] for i in range(0, len(elements), size)]


class SumVec:
    algorithm_id, outputs = 3, 1

    def __init__(self, parameters):
        self.length, self.chunk = parameters["length"], parameters["chunk_length"]
        self.max = parameters["max_measurement"]
        self.bits = self.max.bit_length()
        self.input_len = self.length * self.bits

    def encode(self, measurement):
        assert len(measurement) == self.length
        return [digit for value in measurement for digit in digits(value, self.max)]

    def extra_checks(self, elements, shares):
        return []

    def truncate(self, elements):
        return [number(part, self.max) for part in split(elements, self.bits)]


class L1BoundSum(SumVec):
    """The elements, then their sum, all in 0..=max_value."""

    algorithm_id, outputs = 7, 2

    def __init__(self, parameters):
        super().__init__(dict(parameters, max_measurement=parameters["max_value"]))
        self.input_len += self.bits

    def encode(self, measurement):
        return super().encode(measurement) + digits(sum(measurement), self.max)

    def extra_checks(self, elements, shares):
        *observed, claimed = super().truncate(elements)
        return [(sum(observed) - claimed) % P]

    def truncate(self, elements):
        return super().truncate(elements)[:-1]


class Histogram:
    algorithm_id, outputs = 4, 2

    def __init__(self, parameters):
        self.length, self.chunk = parameters["length"], parameters["chunk_length"]
        self.input_len = self.length

    def encode(self, measurement):
        return [int(i == measurement) for i in range(self.length)]

    def extra_checks(self, elements, shares):
        return [(sum(elements) - inverse(shares)) % P]

    def truncate(self, elements):
        return elements


class MultihotCountVec:
    algorithm_id, outputs = 5, 2

    def __init__(self, parameters):
        self.length, self.chunk = parameters["length"], parameters["chunk_length"]
        self.max = parameters["max_weight"]
        self.input_len = self.length + self.max.bit_length()

    def encode(self, measurement):
        return [int(bit) for bit in measurement] + digits(sum(measurement), self.max)

    def extra_checks(self, elements, shares):
        weight = number(elements[self.length :], self.max)
        return [(sum(elements[: self.length]) - weight) % P]

    def truncate(self, elements):
        return elements[: self.length]


CIRCUITS = {
    "Prio3SumVec": SumVec,
    "Prio3Histogram": Histogram,
    "Prio3MultihotCountVec": MultihotCountVec,
    "Prio3L1BoundSum": L1BoundSum,
}

# --- The fully linear proof ----------------------------------------------------------------------


class Proof:
    """One gadget: a sum of `chunk` products, called once per chunk of the input."""

    def __init__(self, circuit):
        self.circuit = circuit
        self.arity = 2 * circuit.chunk
        self.calls = -(-circuit.input_len // circuit.chunk)
        self.p = next_power_of_two(1 + self.calls)
        self.poly_len = 2 * (self.p - 1) + 1
        self.proof_len = self.arity + self.poly_len
        self.verifier_len = 2 + self.arity
        self.query_rand_len = 1 + (circuit.outputs if circuit.outputs > 1 else 0)
        self.wire_points = [pow(root(self.p), i, P) for i in range(self.p)]
        self.poly_points = [pow(root(2 * self.p), i, P) for i in range(self.poly_len)]

    def gadget(self, wires):
        return sum(a * b for a, b in zip(wires[::2], wires[1::2])) % P

    def gadget_inputs(self, elements, joint_rand, shares):
        """Per call its inputs: r^j x_j and x_j - 1, shared."""
        share_of_one = inverse(shares)
        inputs = []
        for part, r in zip(split(elements, self.circuit.chunk), joint_rand):
            wires, power = [], r
            for x in part:
                wires += [power * x % P, (x - share_of_one) % P]
                power = power * r % P
            wires += [0, -share_of_one % P] * (self.circuit.chunk - len(part))
            inputs.append(wires)
        return inputs

    def wires(self, seeds, inputs):
        """The values of each wire polynomial: seed, calls, zeros."""
        zeros = [0] * (self.p - 1 - self.calls)
        return [[seed] + [call[i] for call in inputs] + zeros for i, seed in enumerate(seeds)]

    def prove(self, elements, prove_rand, joint_rand):
        wires = self.wires(prove_rand, self.gadget_inputs(elements, joint_rand, 1))
        values = []
        for point in self.poly_points:
            at = [interpolate(self.wire_points, wire, point) for wire in wires]
            values.append(self.gadget(at))
        return prove_rand + values

    def query(self, elements, proof, query_rand, joint_rand, shares):
        seeds, poly = proof[: self.arity], proof[self.arity :]
        *reduce, r = query_rand
        # The k-th call is at the k-th point of the wires: every second one of the polynomial.
        outputs = [poly[2 * (k + 1)] for k in range(self.calls)]
        checks = [sum(outputs) % P] + self.circuit.extra_checks(elements, shares)
        check = sum(a * b for a, b in zip(reduce or [1], checks)) % P
        wires = self.wires(seeds, self.gadget_inputs(elements, joint_rand, shares))
        at = [interpolate(self.wire_points, wire, r) for wire in wires]
        return [check] + at + [interpolate(self.poly_points, poly, r)]

    def decide(self, verifier):
        check, *wires, output = verifier
        return check == 0 and self.gadget(wires) == output


# --- Prio3 ---------------------------------------------------------------------------------------


class Rejected(Exception):
    pass


class Prio3:
    def __init__(self, circuit, shares, ctx):
        self.circuit, self.flp, self.shares, self.ctx = circuit, Proof(circuit), shares, ctx

    def xof(self, seed, usage, binder):
        tag = bytes([18, 0]) + self.circuit.algorithm_id.to_bytes(4, "big")
        return xof(seed, tag + usage.to_bytes(2, "big") + self.ctx, binder)

    def part(self, blind, agg_id, nonce, share):
        return take(self.xof(blind, 7, bytes([agg_id]) + nonce + encode(share)), 32)

    def joint_rand_seed(self, parts):
        return take(self.xof(bytes(32), 6, b"".join(parts)), 32)

    def joint_rand(self, parts):
        return random_elements(self.xof(self.joint_rand_seed(parts), 3, b"\1"), self.flp.calls)

    def helper(self, seed, agg_id):
        share = random_elements(self.xof(seed, 1, bytes([agg_id])), self.circuit.input_len)
        proof = random_elements(self.xof(seed, 2, bytes([1, agg_id])), self.flp.proof_len)
        return share, proof

    def shard(self, measurement, nonce, rand):
        seeds = [rand[i : i + 32] for i in range(0, len(rand), 32)]
        assert len(seeds) == 2 * self.shares
        elements = self.circuit.encode(measurement)
        leader_share, proof_shares, parts, input_shares = list(elements), [], [], []
        for agg_id in range(1, self.shares):
            seed, blind = seeds[2 * agg_id - 2], seeds[2 * agg_id - 1]
            share, proof = self.helper(seed, agg_id)
            leader_share = [(a - b) % P for a, b in zip(leader_share, share)]
            proof_shares.append(proof)
            parts.append(self.part(blind, agg_id, nonce, share))
            input_shares.append(seed + blind)
        leader_blind, prove_seed = seeds[-2:]
        parts.insert(0, self.part(leader_blind, 0, nonce, leader_share))
        prove_rand = random_elements(self.xof(prove_seed, 4, b"\1"), self.flp.arity)
        proof = self.flp.prove(elements, prove_rand, self.joint_rand(parts))
        for share in proof_shares:
            proof = [(a - b) % P for a, b in zip(proof, share)]
        input_shares.insert(0, encode(leader_share) + encode(proof) + leader_blind)
        return b"".join(parts), input_shares

    def verify_init(self, verify_key, agg_id, nonce, public_share, input_share):
        """The state (output share and joint-randomness seed) and the verifier share."""
        blind = input_share[-32:]
        if agg_id == 0:
            elements = decode(input_share[:-32])
            share, proof = elements[: self.circuit.input_len], elements[self.circuit.input_len :]
            assert len(proof) == self.flp.proof_len
        else:
            share, proof = self.helper(input_share[:32], agg_id)
        parts = [public_share[i : i + 32] for i in range(0, len(public_share), 32)]
        parts[agg_id] = self.part(blind, agg_id, nonce, share)
        stream = self.xof(verify_key, 5, b"\1" + nonce)
        query_rand = random_elements(stream, self.flp.query_rand_len)
        verifier = self.flp.query(share, proof, query_rand, self.joint_rand(parts), self.shares)
        state = self.circuit.truncate(share), self.joint_rand_seed(parts)
        return state, encode(verifier) + parts[agg_id]

    def verifier_shares_to_message(self, verifier_shares):
        verifiers = [decode(share[:-32]) for share in verifier_shares]
        if not self.flp.decide([sum(column) % P for column in zip(*verifiers)]):
            raise Rejected("proof")
        return self.joint_rand_seed([share[-32:] for share in verifier_shares])

    def verify_next(self, state, message):
        output_share, seed = state
        if seed != message:
            raise Rejected("joint randomness")
        return encode(output_share)


# --- Running a file --------------------------------------------------------------------------------


def same(what, expected, actual):
    if expected != actual:
        raise AssertionError(f"{what} differs")


def run_operation(prio3, file, states, operation):
    unhex = bytes.fromhex
    kind, agg_id = operation["operation"], operation.get("aggregator_id")
    if kind == "aggregate":
        columns = zip(*(decode(unhex(report["out_shares"][agg_id])) for report in file["reports"]))
        total = [sum(column) % P for column in columns]
        return same("aggregate share", unhex(file["agg_shares"][agg_id]), encode(total))
    if kind == "unshard":
        columns = zip(*(decode(unhex(share)) for share in file["agg_shares"]))
        return same("result", file["agg_result"], [sum(column) % P for column in columns])
    index = operation["report_index"]
    report = file["reports"][index]
    nonce, public_share = unhex(report["nonce"]), unhex(report["public_share"])
    if kind == "shard":
        public, inputs = prio3.shard(report["measurement"], nonce, unhex(report["rand"]))
        same("public share", public_share, public)
        same("input shares", [unhex(share) for share in report["input_shares"]], inputs)
    elif kind == "verify_init":
        input_share = unhex(report["input_shares"][agg_id])
        state, verifier_share = prio3.verify_init(
            unhex(file["verify_key"]), agg_id, nonce, public_share, input_share
        )
        states[index, agg_id] = state
        same("verifier share", unhex(report["verifier_shares"][0][agg_id]), verifier_share)
    elif kind == "verifier_shares_to_message":
        shares = [unhex(share) for share in report["verifier_shares"][0]]
        message = prio3.verifier_shares_to_message(shares)
        if operation["success"]:
            same("verifier message", unhex(report["verifier_messages"][0]), message)
    elif kind == "verify_next":
        message = unhex(report["verifier_messages"][0])
        output_share = prio3.verify_next(states[index, agg_id], message)
        if operation["success"]:
            same("output share", unhex(report["out_shares"][agg_id]), output_share)
    else:
        raise AssertionError(f"unknown operation {kind}")


def run(path):
    with open(path, encoding="utf-8") as opened:
        file = json.load(opened)
    name = os.path.basename(path).split("_")[0].split(".")[0]
    prio3 = Prio3(CIRCUITS[name](file), file["shares"], bytes.fromhex(file["ctx"]))
    assert file["operations"], "no operations"
    states = {}
    for operation in file["operations"]:
        try:
            run_operation(prio3, file, states, operation)
            succeeded = True
        except Rejected:
            succeeded = False
        assert succeeded == operation["success"], f"{operation}: success is {succeeded}"


def main():
    failed = 0
    for path in sys.argv[1:]:
        try:
            run(path)
            print(f"pass {path}")
        except (AssertionError, KeyError) as error:
            failed += 1
            print(f"FAIL {path}: {error!r}")
    return 1 if failed or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
