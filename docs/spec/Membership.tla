------------------------------ MODULE Membership ------------------------------
(* How the voters of a Barnabas quorum change, and why nothing committed is lost.

   One action below is one thing that a node of src/barnabas/raft does; the comment
   names the file.  What is left out does not bear on membership: records of users,
   pre-votes, snapshots, timers.  An election is one step (a majority gives its votes
   and the winner writes its first entry); a failed election is no step at all.
   A crash with a restart is nothing but a loss of what only a leader knows, so it is
   the same as "a leader falls silent", and every action may simply never happen.

   README.md tells how to read this file and how to run it.                       *)

EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Nodes,              \* replicas; another disk would be another element
    Initial,            \* the voters the quorum was formatted with
    MaxEpoch, MaxLog,   \* bounds of the model, not of the quorum
    Manual,             \* TRUE: operators add, remove and update at any time
    Target,             \* the set that an operator asks for as a whole; {} means never
    Dead,               \* replicas that do nothing at all, and that leaders know to be dead
    (* What a leader must keep to (raft/membership/steps.py when it appends a voter set,
       raft/leadership.py when it counts).  Each known-bad model switches one of them off. *)
    GuardOwnEpoch,      \* it has committed an entry of its own epoch
    GuardOneChange,     \* no change of the set is uncommitted
    GuardOneKey,        \* exactly one replica comes or goes
    GuardOutsider       \* a leader that is not in the set does not count itself

ASSUME Initial \subseteq Nodes /\ Target \subseteq Nodes /\ Dead \subseteq Nodes

VARIABLES
    epoch,      \* node -> highest epoch it has seen; it helps elect nobody for a lower one
    leads,      \* node -> whether it leads in that epoch
    log,        \* node -> its log, a sequence of entries
    high,       \* node -> the high watermark, while it leads; 0 = not known yet
    acked,      \* node -> (node -> up to where it has fetched, as this leader knows)
    told,       \* node -> up to where it has been told that its log is committed
    committed,  \* history: every <<place, entry>> that any leader ever called committed
    winners     \* history: epoch -> who has won it

vars == <<epoch, leads, log, high, acked, told, committed, winners>>

-------------------------------------------------------------------------------
(* Entries.  "first" is what a new leader writes, "voters" carries a set, "target" the
   set to go to; an empty target says that there is none any more.                     *)

First(e, n)  == [epoch |-> e, kind |-> "first",  value |-> {n}]
Voters(e, s) == [epoch |-> e, kind |-> "voters", value |-> s]
Goal(e, s)   == [epoch |-> e, kind |-> "target", value |-> s]

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Upto(l, kind) == {i \in DOMAIN l : l[i].kind = kind}

(* The set in force is the last one in the log, committed or not.  Cut the log, and the
   set before it is in force again: there is nothing else to undo.                      *)
SetOf(l)  == LET at == Upto(l, "voters") IN IF at = {} THEN Initial ELSE l[Max(at)].value
SetAt(l)  == LET at == Upto(l, "voters") IN IF at = {} THEN 0 ELSE Max(at)
GoalOf(l) == LET at == Upto(l, "target") IN IF at = {} THEN {} ELSE l[Max(at)].value
GoalAt(l) == LET at == Upto(l, "target") IN IF at = {} THEN 0 ELSE Max(at)

Majority(Q, S) == 2 * Cardinality(Q \cap S) > Cardinality(S)
Needed(S) == Cardinality(S) \div 2 + 1
Changed(S, T) == (S \ T) \cup (T \ S)

LastEpoch(l) == IF l = <<>> THEN 0 ELSE l[Len(l)].epoch
AsGood(l, m) == \/ LastEpoch(l) > LastEpoch(m)
                \/ LastEpoch(l) = LastEpoch(m) /\ Len(l) >= Len(m)
Prefix(l, m) == Len(l) <= Len(m) /\ \A i \in DOMAIN l : l[i] = m[i]
Common(l, m) == Max({0} \cup {i \in DOMAIN l : i <= Len(m) /\ \A j \in 1..i : l[j] = m[j]})

Alive == Nodes \ Dead

-------------------------------------------------------------------------------
Init ==
    /\ epoch = [n \in Nodes |-> 0]
    /\ leads = [n \in Nodes |-> FALSE]
    /\ log = [n \in Nodes |-> <<>>]
    /\ high = [n \in Nodes |-> 0]
    /\ acked = [n \in Nodes |-> [m \in Nodes |-> 0]]
    /\ told = [n \in Nodes |-> 0]
    /\ committed = {}
    /\ winners = [e \in 1..MaxEpoch |-> {}]

Unknown == [m \in Nodes |-> 0]

(* A voter stands.  So may one whose own removal is in its log and perhaps not committed:
   it may be the only one that has that entry (raft/core.py, may_stand).                 *)
MayStand(n) ==
    \/ n \in SetOf(log[n])
    \/ SetAt(log[n]) > 0 /\ n \in SetOf(SubSeq(log[n], 1, SetAt(log[n]) - 1))

(* raft/election.py.  Votes are counted in the set of the candidate's own log, which need
   not be anybody else's.  Who gives a vote asks only for epoch and log.                 *)
Elect(n, e, Q) ==
    /\ MayStand(n)
    /\ Len(log[n]) < MaxLog
    /\ Cardinality(Q) = Needed(SetOf(log[n]))
    /\ n \in SetOf(log[n]) => n \in Q
    /\ \A q \in Q \cup {n} : epoch[q] < e /\ q \in Alive
    /\ \A q \in Q : AsGood(log[n], log[q])
    /\ epoch' = [m \in Nodes |-> IF m \in Q \cup {n} THEN e ELSE epoch[m]]
    /\ leads' = [m \in Nodes |-> IF m = n THEN TRUE ELSE leads[m] /\ m \notin Q]
    /\ log' = [log EXCEPT ![n] = Append(@, First(e, n))]
    /\ high' = [m \in Nodes |-> IF m \in Q \cup {n} THEN 0 ELSE high[m]]
    /\ acked' = [m \in Nodes |-> IF m \in Q \cup {n} THEN Unknown ELSE acked[m]]
    /\ winners' = [winners EXCEPT ![e] = @ \cup {n}]
    /\ UNCHANGED <<told, committed>>

(* raft/following.py: f follows l.  Any node may, voter or not.                          *)
Joins(f, l) ==
    /\ f # l /\ f \in Alive /\ l \in Alive
    /\ leads[l] /\ epoch[f] <= epoch[l]
    /\ epoch' = [epoch EXCEPT ![f] = epoch[l]]
    /\ leads' = [leads EXCEPT ![f] = FALSE]
    /\ high' = [high EXCEPT ![f] = 0]

(* It cuts off what the leader does not have ...                                         *)
Truncate(f, l) ==
    /\ Joins(f, l)
    /\ ~Prefix(log[f], log[l])
    /\ log' = [log EXCEPT ![f] = SubSeq(@, 1, Common(log[f], log[l]))]
    /\ acked' = [acked EXCEPT ![f] = Unknown]
    /\ UNCHANGED <<told, committed, winners>>

(* ... and then takes the next entry.  The leader learns of it, and it learns what the
   leader knows to be committed.                                                         *)
Fetch(f, l) ==
    /\ Joins(f, l)
    /\ Prefix(log[f], log[l]) /\ Len(log[f]) < Len(log[l])
    /\ log' = [log EXCEPT ![f] = Append(@, log[l][Len(@) + 1])]
    /\ acked' = [acked EXCEPT ![f] = Unknown, ![l][f] = Len(log[f]) + 1]
    /\ told' = [told EXCEPT ![f] = Max({@, IF high[l] > Len(log[f]) THEN Len(log[f]) + 1 ELSE high[l]})]
    /\ UNCHANGED <<committed, winners>>

(* raft/leadership.py, the high watermark: held by a majority of the set in force, and
   past the start of the epoch.  A leader that is not in the set does not count itself. *)
Counted(l) == IF GuardOutsider THEN SetOf(log[l]) ELSE SetOf(log[l]) \cup {l}
Holds(l, i) == {m \in Counted(l) : IF m = l THEN TRUE ELSE acked[l][m] >= i}

Commit(l) ==
    LET can == {i \in high[l] + 1 .. Len(log[l]) :
                   /\ log[l][i].epoch = epoch[l]
                   /\ Cardinality(Holds(l, i)) >= Needed(SetOf(log[l]))}
    IN  /\ leads[l] /\ can # {}
        /\ high' = [high EXCEPT ![l] = Max(can)]
        /\ told' = [told EXCEPT ![l] = Max({@, Max(can)})]
        /\ committed' = committed \cup {<<i, log[l][i]>> : i \in 1 .. Max(can)}
        /\ UNCHANGED <<epoch, leads, log, acked, winners>>

OwnEpochCommitted(l) == high[l] > 0
NothingOpen(l) == SetAt(log[l]) <= high[l]

(* raft/membership/steps.py, _append_voters: the one place where a set is written.            *)
Write(l, entry) ==
    /\ leads[l] /\ l \in Alive /\ Len(log[l]) < MaxLog
    /\ log' = [log EXCEPT ![l] = Append(@, entry)]
    /\ UNCHANGED <<epoch, leads, high, acked, told, committed, winners>>

Change(l, S) ==
    /\ S # {}
    /\ GuardOwnEpoch => OwnEpochCommitted(l)
    /\ GuardOneChange => NothingOpen(l)
    /\ GuardOneKey => Cardinality(Changed(SetOf(log[l]), S)) <= 1
    /\ Write(l, Voters(epoch[l], S))

(* Add (one more), remove (one less), update (the same replicas, another endpoint).      *)
ByHand(l) == Manual /\ leads[l] /\ \E S \in SUBSET Nodes : Change(l, S)

-------------------------------------------------------------------------------
(* The target set (raft/membership/target.py).  It is an entry of the log, so whoever leads next
   finds it there, and a target that was not committed may be cut off again.            *)

SetTarget(l) ==
    /\ leads[l] /\ Target # {} /\ OwnEpochCommitted(l)
    /\ Upto(log[l], "target") = {}
    /\ Write(l, Goal(epoch[l], Target))

Living(S) == S \cap Alive
Safe(S) == S # {} /\ Majority(Alive, S)
CaughtUp(l, m) == m \in Alive /\ acked[l][m] + 1 >= Len(log[l])

(* The same four rules in the same order as next_step() there.                           *)
Plan(l) ==
    LET current == SetOf(log[l])
        goal    == GoalOf(log[l])
        new     == goal \ current
        going   == current \ goal
        deadOut == {d \in going \ Alive : Safe(current \ {d})}
        out     == {g \in going \ {l} : Safe(current \ {g})}
        ready   == {m \in new : CaughtUp(l, m) /\ Safe(current \cup {m})}
    IN  IF deadOut # {} THEN {[do |-> "remove", who |-> d] : d \in deadOut}
        ELSE IF new # {} /\ Cardinality(new) >= Cardinality(going)
             THEN {[do |-> "add", who |-> m] : m \in ready}
        ELSE IF out # {} THEN {[do |-> "remove", who |-> g] : g \in out}
        ELSE IF going = {l} /\ Living(goal \ {l}) # {} THEN {[do |-> "hand over", who |-> l]}
        ELSE {}

(* Between two steps everything is committed.                                            *)
Planning(l) ==
    /\ leads[l] /\ l \in Alive
    /\ GoalOf(log[l]) # {} /\ GoalAt(log[l]) <= high[l]
    /\ OwnEpochCommitted(l) /\ NothingOpen(l)

Step(l) ==
    /\ Planning(l)
    /\ IF SetOf(log[l]) = GoalOf(log[l])
       THEN Write(l, Goal(epoch[l], {}))
       ELSE \E step \in Plan(l) :
              CASE step.do = "add"    -> Change(l, SetOf(log[l]) \cup {step.who})
                [] step.do = "remove" -> Change(l, SetOf(log[l]) \ {step.who})
                [] OTHER -> /\ leads' = [leads EXCEPT ![l] = FALSE]
                            /\ high' = [high EXCEPT ![l] = 0]
                            /\ acked' = [acked EXCEPT ![l] = Unknown]
                            /\ UNCHANGED <<epoch, log, told, committed, winners>>

-------------------------------------------------------------------------------
Next ==
    \/ \E n \in Alive : \E e \in epoch[n] + 1 .. MaxEpoch : \E Q \in SUBSET SetOf(log[n]) : Elect(n, e, Q)
    \/ \E f, l \in Nodes : Truncate(f, l) \/ Fetch(f, l)
    \/ \E l \in Nodes : Commit(l) \/ ByHand(l) \/ SetTarget(l) \/ Step(l)

Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* The promises.                                                                         *)

TypeOK ==
    /\ epoch \in [Nodes -> 0..MaxEpoch]
    /\ leads \in [Nodes -> BOOLEAN]
    /\ \A n \in Nodes : Len(log[n]) <= MaxLog /\ high[n] <= Len(log[n])

OneLeaderPerEpoch == \A e \in 1..MaxEpoch : Cardinality(winners[e]) <= 1

(* Two leaders never call different entries committed at the same place.                 *)
CommittedOnce == \A p, q \in committed : p[1] = q[1] => p = q

(* Whoever leads in an epoch as new as all that is committed has all of it.              *)
CommittedSurvives ==
    \A l \in Nodes :
        (leads[l] /\ \A p \in committed : p[2].epoch <= epoch[l]) =>
            \A p \in committed : p[1] <= Len(log[l]) /\ log[l][p[1]] = p[2]

(* In no log, current or stale, do two changes of the set wait at once.                  *)
OneOpenChange ==
    \A n \in Nodes :
        Cardinality({i \in Upto(log[n], "voters") : <<i, log[n][i]>> \notin committed}) <= 1

(* No majority of a set and majority of the set before it (in any log) are disjoint: the
   smallest ones would not both fit into the two sets together.                          *)
MajoritiesOverlap ==
    \A n \in Nodes : \A i \in Upto(log[n], "voters") :
        LET before == SetOf(SubSeq(log[n], 1, i - 1))
            after  == log[n][i].value
        IN  Needed(before) + Needed(after) > Cardinality(before \cup after)

(* Nobody cuts off what it was told is committed (checked on every step).                *)
ToldIsNeverCut ==
    [][\A n \in Nodes : told[n] <= Len(log'[n]) /\ \A i \in 1..told[n] : log'[n][i] = log[n][i]]_vars

(* Not a promise, though it sounds like one: README.md tells how it breaks, and why that
   does no harm.                                                                         *)
CommittedIsNeverCut ==
    [][\A n \in Nodes : \A p \in committed :
           (p[1] <= Len(log[n]) /\ log[n][p[1]] = p[2]) =>
               (p[1] <= Len(log'[n]) /\ log'[n][p[1]] = p[2])]_vars

(* On the way to a target, no set is ever in force that needs the ack of a dead node.     *)
NeverNeedsTheDead == ~Manual => \A n \in Alive : Majority(Alive, SetOf(log[n]))

(* And the way does not end before the target, unless for a dead or a lagging member.    *)
PlannerIsNotStuck ==
    \A l \in Nodes :
        (Planning(l) /\ SetOf(log[l]) # GoalOf(log[l]) /\ Plan(l) = {}) =>
            \/ \E m \in GoalOf(log[l]) \ SetOf(log[l]) : ~CaughtUp(l, m)
            \/ Living(GoalOf(log[l]) \ {l}) = {}

(* For the curious: TLC shows how a target is reached when told that it never is.         *)
TargetNeverReached ==
    ~\E p \in committed : p[2].kind = "target" /\ p[2].value = {}

(* Replicas that play the same part may be exchanged: TLC looks at one of such states.   *)
Alike == UNION {Permutations({n \in Nodes : <<n \in Initial, n \in Target, n \in Dead>> = part}) :
                part \in BOOLEAN \X BOOLEAN \X BOOLEAN}

===============================================================================
