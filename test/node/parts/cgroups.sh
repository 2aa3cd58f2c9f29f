# shellcheck shell=bash
# The node's cgroups: one child of the current cgroup in each hierarchy, under one name, so that what is left
# after a crash is found again.

cgroup_name() { printf 'egress-node-%s' "$(sha256sum <<<"$LAB_DIR" | cut -c1-8)"; }

# enter_cgroups: moves this process into them. On cgroup v2 they are made at the hierarchy's root, the only
# place where a cgroup may have processes and children with controllers.
enter_cgroups() {
  local lines line controllers path mount child
  # Read as a whole first: it changes with each step.
  mapfile -t lines </proc/self/cgroup
  for line in "${lines[@]}"; do
    IFS=: read -r _ controllers path <<<"$line"
    mount=$(hierarchy "$controllers") || continue
    child=$mount$path/$(cgroup_name)
    if [[ -z $controllers ]]; then
      # Beside v1 hierarchies there may be an empty v2 one; the node does without.
      [[ -s $mount/cgroup.controllers ]] || continue
      child=$mount/$(cgroup_name)
    fi
    mkdir -p "$child"
    if [[ ,$controllers, == *,cpuset,* ]]; then
      cat "$mount$path/cpuset.cpus" >"$child/cpuset.cpus"
      cat "$mount$path/cpuset.mems" >"$child/cpuset.mems"
    fi
    echo "$BASHPID" >"$child/cgroup.procs"
  done
}

# hierarchy CONTROLLERS: where it is mounted; empty CONTROLLERS for v2.
hierarchy() {
  awk -v want="$1" '
    { for (i = 7; i <= NF; i++) if ($i == "-") break; type = $(i + 1); options = $(i + 3) }
    want == "" && type == "cgroup2" { print $5; found = 1; exit }
    want != "" && type == "cgroup" {
      n = split(want, names, ","); all = 1
      for (j = 1; j <= n; j++) if (("," options ",") !~ ("," names[j] ",")) all = 0
      if (all) { print $5; found = 1; exit }
    }
    END { exit !found }' /proc/self/mountinfo
}

left_cgroups() { find /sys/fs/cgroup -depth -type d \( -name "$(cgroup_name)" -o -path "*/$(cgroup_name)/*" \) 2>/dev/null || true; }

remove_cgroups() {
  local directory
  while read -r directory; do rmdir "$directory" 2>/dev/null || true; done < <(left_cgroups)
  [[ -z $(left_cgroups) ]]
}
