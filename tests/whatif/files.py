"""Queues and jobs for plays whose outcome is known by hand."""

from pathlib import Path

QUEUES = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: research
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources:
      - {name: cpu, nominalQuota: CPU}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq, namespace: team-a}
spec: {clusterQueue: research}
"""

HEAD = "submit,runtime,size,queue,priority,team,cpu\n"
TENS = HEAD + "".join(f"0,100,1,team-a/lq,0,{'red' if n % 2 else 'blue'},1\n" for n in range(10))
"""Ten jobs at once, 100 s and one core each."""


def queues(folder: Path, cpu: int = 2, name: str = "queues.yaml") -> Path:
    path = folder / name
    path.write_text(QUEUES.replace("CPU", str(cpu)))
    return path


def jobs(folder: Path, text: str = TENS, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path
