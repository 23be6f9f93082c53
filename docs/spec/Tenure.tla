------------------------------- MODULE Tenure -------------------------------
(* Lease, session and fence, as short as they can be said. One lease rides on its holder's session. Whoever finds that   *)
(* session silent for a full ttl raises the session's fence, after which its process can't renew, and then claims the    *)
(* lease with a higher fence. Clocks drift; requests never land, or land at any later time; answers are lost; a process  *)
(* stops at any point, for ever or for a while; a write to what the lease guards lands at any later time.                *)
(*                                                                                                                       *)
(* Each assumption and each rule of the protocol is a constant of its own, so that it can be switched off by name:       *)
(* `cargo xtask spec` checks that all together keep the promises, and that without any one of them a promise breaks.     *)
(* Left out: liveness, mail, tokens, two witnesses, deletion and the clock that raises fences past it. The simulator     *)
(* (crates/tenure-sim) has them all, and runs the real code.                                                             *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Processes,       \* who wants the lease
  Lease, Nobody,   \* two names
  MaxWrites,       \* how many writes are ever sent: the bound of the check
  Ttl,             \* in units of a process's own clock
  Slow, Fast,      \* how many such units pass in one step of true time, at least and at most: (1-rho) and (1+rho)
  \* What the world must do
  ClocksWithinRho, \* no clock runs slower than Slow; else it may stand still: hidden time
  \* What the protocol does
  DriftMargin,     \* belief lasts Ttl * Slow / Fast, not Ttl
  ValidFromSend,   \* belief is counted from before the write was sent, not from its answer
  Conditional,     \* a write takes effect only over the version that its sender saw
  UnknownIsOpen,   \* a write without an answer is neither success nor failure until the record was read
  FenceSession,    \* a dead holder's session is fenced before its lease is taken
  WatchRestarts,   \* a waiter that sees a new beat starts to count anew
  StopAtDeadline,  \* belief ends by the process's own clock, without being told
  FenceGrows       \* each tenure's fence is greater than the one before

ASSUME {Slow, Fast, Ttl, MaxWrites} \subseteq Nat /\ 0 < Slow /\ Slow <= Fast
Symmetric == Permutations(Processes)

VARIABLES
  reg,      \* the store: the record of the lease, and that of each process's session
  net,      \* writes that may yet take effect; one that is lost stays here for ever
  sent,     \* how many writes were sent; a write's number is its nonce, and the version of what it wrote
  proc,     \* what each process knows
  believed  \* tenures that someone ever believed in: their writes to the resource may land at any time
vars == <<reg, net, sent, proc, believed>>

Belief == IF DriftMargin THEN (Ttl * Slow) \div Fast ELSE Ttl
Rates == (IF ClocksWithinRho THEN Slow ELSE 0)..Fast
Max(a, b) == IF a > b THEN a ELSE b
Less(a, b) == IF a > b THEN a - b ELSE 0
Capped(a) == IF a > Ttl THEN Ttl ELSE a

\* A record. `order` counts the tenures of the lease: nobody reads it but the promises below.
Record(fence, order, holder, ride, version) ==
  [fence |-> fence, order |-> order, holder |-> holder, ride |-> ride, version |-> version]
NoWrite == [n |-> 0, by |-> Nobody, name |-> Nobody, expect |-> 0, record |-> Record(0, 0, Nobody, 0, 0)]
NotHeld == [fence |-> 0, order |-> 0, version |-> 0]

\* session: the session's fence, 0 when it is lost; left: how long it is still believed; held: the lease, if it is held;
\* op: the write that an answer is awaited to, sent `age` ago; seen, watch: which beat is watched, and for how long.
\* At first every session is up, and one process holds the lease.
Init == \E h \in Processes :
  /\ reg = [name \in Processes \cup {Lease} |-> IF name = Lease THEN Record(1, 1, h, 1, 0) ELSE Record(1, 0, name, 0, 0)]
  /\ net = {} /\ sent = 0
  /\ proc = [p \in Processes |-> [session |-> 1, version |-> 0, left |-> Belief,
                                  held |-> IF p = h THEN [fence |-> 1, order |-> 1, version |-> 0] ELSE NotHeld,
                                  op |-> NoWrite, age |-> 0, seen |-> <<Nobody, 0>>, watch |-> 0]]
  /\ believed = {[fence |-> 1, order |-> 1]}

Holds(p) == proc[p].held # NotHeld /\ proc[p].left > 0

\* ---- sending: one write at a time ----
Send(p, name, expect, record, knows) ==
  LET w == [n |-> sent + 1, by |-> p, name |-> name, expect |-> expect,
            record |-> [record EXCEPT !.version = sent + 1]] IN
  /\ sent < MaxWrites /\ proc[p].op = NoWrite
  /\ sent' = sent + 1 /\ net' = net \cup {w}
  /\ proc' = [proc EXCEPT ![p] = [knows EXCEPT !.op = w, !.age = 0]]
  /\ UNCHANGED <<reg, believed>>

Renew(p) == /\ proc[p].session # 0
            /\ Send(p, p, proc[p].version, Record(proc[p].session, 0, p, 0, 0), proc[p])

\* A session that was lost begins anew, with a higher fence: what rode on the old one doesn't ride on it.
Open(p) == /\ proc[p].session = 0
           /\ Send(p, p, reg[p].version, Record(reg[p].fence + 1, 0, p, 0, 0), proc[p])

\* The lease stands as long as its holder's session shows the fence that it rides on.
Stands == LET q == reg[Lease].holder IN
  q # Nobody /\ reg[q].holder # Nobody /\ reg[q].fence = reg[Lease].ride
Silent(p, q) == proc[p].seen[1] = q /\ proc[p].watch >= Ttl

\* The dead holder's session is fenced. What was seen of it may be out of date by now: then this write fails.
Fence(p) == LET q == reg[Lease].holder IN
  /\ proc[p].session # 0 /\ Stands /\ q # p /\ Silent(p, q)
  /\ Send(p, q, proc[p].seen[2], Record(reg[q].fence + 1, 0, Nobody, 0, 0), proc[p])

Claim(p) == LET q == reg[Lease].holder IN
  /\ proc[p].session # 0 /\ proc[p].held = NotHeld
  /\ ~Stands \/ (~FenceSession /\ q # p /\ Silent(p, q))
  /\ Send(p, Lease, reg[Lease].version,
          Record(IF FenceGrows THEN reg[Lease].fence + 1 ELSE reg[Lease].fence,
                 reg[Lease].order + 1, p, proc[p].session, 0), proc[p])

\* Whoever gives up stops to believe before it writes so.
Release(p) == /\ Holds(p)
              /\ Send(p, Lease, proc[p].held.version,
                      Record(proc[p].held.fence, proc[p].held.order, Nobody, 0, 0), [proc[p] EXCEPT !.held = NotHeld])

\* ---- what comes of a write ----
\* It took effect.
Won(p, w) ==
  LET s == [proc[p] EXCEPT !.op = NoWrite]
      until == IF ValidFromSend THEN Less(Belief, proc[p].age) ELSE Belief IN
  CASE w.name = p /\ w.record.fence = s.session -> [s EXCEPT !.version = w.n, !.left = Max(@, until)]
    [] w.name = p /\ s.session = 0 /\ until > 0 ->
         [s EXCEPT !.version = w.n, !.left = until, !.session = w.record.fence]
    [] w.name = Lease /\ w.record.holder = p /\ w.record.ride = s.session ->
         [s EXCEPT !.seen = <<Nobody, 0>>, !.watch = 0, !.held = [fence |-> w.record.fence, order |-> w.record.order, version |-> w.n]]
    [] OTHER -> s

\* It did not, or that is not known: then the record tells. A session that shows another fence is lost.
Look(p, w) ==
  LET s == [proc[p] EXCEPT !.op = NoWrite] IN
  IF w.name # p \/ s.session = 0 THEN s
  ELSE IF reg[p].fence = s.session THEN [s EXCEPT !.version = reg[p].version]
  ELSE [s EXCEPT !.session = 0, !.left = 0, !.held = NotHeld]

Become(p, s) ==
  /\ proc' = [proc EXCEPT ![p] = s]
  /\ believed' = IF s.held \in {NotHeld, proc[p].held} THEN believed
                 ELSE believed \cup {[fence |-> s.held.fence, order |-> s.held.order]}

\* A write reaches the store. Its sender hears of it, if it still waits, or does not.
Land(w) ==
  LET wins == reg[w.name].version = w.expect \/ ~Conditional
      now == IF wins THEN [reg EXCEPT ![w.name] = w.record] ELSE reg IN
  /\ reg' = now
  \* A version never comes back, so a write over another one will never take effect: it need not be kept.
  /\ net' = {v \in net \ {w} : v.expect = now[v.name].version \/ ~Conditional}
  /\ \/ proc[w.by].op = w /\ Become(w.by, IF wins THEN Won(w.by, w) ELSE Look(w.by, w))
     \/ UNCHANGED <<proc, believed>>
  /\ UNCHANGED sent

\* No answer came for as long as a process cared to wait: the write is lost, on its way, or has landed.
GiveUp(p) == LET w == proc[p].op IN
  /\ w # NoWrite
  /\ Become(p, IF reg[w.name].version = w.n \/ ~UnknownIsOpen THEN Won(p, w) ELSE Look(p, w))
  /\ UNCHANGED <<reg, net, sent>>

\* ---- time ----
Watch(p) == LET q == reg[Lease].holder IN
  /\ Stands /\ q # p /\ proc[p].op = NoWrite /\ proc[p].held = NotHeld /\ proc[p].seen # <<q, reg[q].version>>
  /\ proc' = [proc EXCEPT ![p].seen = <<q, reg[q].version>>,
                          ![p].watch = IF WatchRestarts \/ proc[p].seen[1] # q THEN 0 ELSE @]
  /\ UNCHANGED <<reg, net, sent, believed>>

Passed(s, units) ==
  LET left == Less(s.left, units)
      over == s.session # 0 /\ left = 0 /\ StopAtDeadline IN
  [s EXCEPT !.left = IF s.session = 0 \/ StopAtDeadline THEN left ELSE Max(1, left),
            !.session = IF over THEN 0 ELSE @, !.held = IF over THEN NotHeld ELSE @,
            !.op = IF over THEN NoWrite ELSE @,
            \* Only a session's write makes belief, so only its age matters.
            !.age = IF over \/ s.op = NoWrite \/ s.op.record.ride # 0 \/ s.op.record.holder = Nobody THEN 0
                    ELSE Capped(@ + units),
            !.watch = IF s.seen[1] = Nobody THEN 0 ELSE Capped(@ + units)]

Tick == \E rate \in [Processes -> Rates] :
  /\ proc' = [p \in Processes |-> Passed(proc[p], rate[p])]
  /\ UNCHANGED <<reg, net, sent, believed>>

Next == \/ \E p \in Processes : Renew(p) \/ Open(p) \/ Fence(p) \/ Claim(p) \/ Release(p) \/ GiveUp(p) \/ Watch(p)
        \/ \E w \in net : Land(w)
        \/ Tick
Spec == Init /\ [][Next]_vars

\* ---- the promises ----
\* S1, as long as ClocksWithinRho: at no instant do two processes both believe.
OneHolder == \A p, q \in Processes : Holds(p) /\ Holds(q) => p = q
\* S2: each tenure's fence is greater than every earlier one.
FencesIncrease == \A s, t \in believed : s.order < t.order => s.fence < t.fence
\* P2, whatever the clocks do: a resource that has accepted a write of one tenure accepts none of a deposed one, whenever it
\* lands. It knows nothing but fences, and refuses those that are lower than the highest that it has seen.
Accepts(highest, fence) == fence >= highest
NeverADeposed == \A s, t \in believed : s.order < t.order => ~Accepts(t.fence, s.fence)
=============================================================================
