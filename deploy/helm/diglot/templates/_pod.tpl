{{- /* The parts of a pod with Diglot in it. Other charts can use `diglot.sidecar`, `diglot.agentLifecycle`, `diglot.volumes`,
       `diglot.grace` and `diglot.restart` too: README.md. */ -}}

{{- define "diglot.container" -}}
name: diglot
image: {{ include "diglot.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [diglot, serve]
env:
  - {name: DIGLOT_CONFIG, value: /etc/diglot/diglot.yaml}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $data := include "diglot.data" . | fromYaml }}
{{- $status := include "diglot.status" . | fromYaml }}
ports:
  - {name: http, containerPort: {{ $data.port }}}
  - {name: status, containerPort: {{ $status.port }}}
startupProbe:
  httpGet: {path: /livez, port: status, scheme: {{ upper $status.scheme }}}
  periodSeconds: 1
  failureThreshold: 30
readinessProbe:
  httpGet: {path: /readyz, port: status, scheme: {{ upper $status.scheme }}}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /livez, port: status, scheme: {{ upper $status.scheme }}}
  periodSeconds: 10
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: diglot-config, mountPath: /etc/diglot, readOnly: true}
  - {name: diglot-run, mountPath: /run/diglot}
  {{- range .Values.secrets }}
  - {name: {{ printf "secret-%s" . | replace "." "-" | trunc 63 | trimSuffix "-" }}, mountPath: /run/secrets/{{ . }}, readOnly: true}
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* An entry of initContainers. It receives SIGTERM after the other containers have exited; its preStop runs immediately, so
       the drain begins there. */ -}}
{{- define "diglot.sidecar" -}}
{{ include "diglot.container" . }}
restartPolicy: Always
lifecycle:
  preStop:
    exec: {command: [diglot, drain, --wait]}
{{- end -}}

{{- /* `lifecycle` of the agent in the same pod: it receives SIGTERM when the gateway has no open run. The port is a number,
       since a name would be looked up among the agent's own ports. */ -}}
{{- define "diglot.agentLifecycle" -}}
{{- $status := include "diglot.status" . | fromYaml -}}
preStop:
  httpGet: {path: /drain/wait, port: {{ $status.port }}, scheme: {{ upper $status.scheme }}}
{{- end -}}

{{- define "diglot.volumes" -}}
- name: diglot-config
  configMap: {name: {{ include "diglot.fullname" . }}}
- name: diglot-run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- range .Values.secrets }}
- name: {{ printf "secret-%s" . | replace "." "-" | trunc 63 | trimSuffix "-" }}
  secret: {secretName: {{ . }}, defaultMode: 0444}
{{- end }}
{{- end -}}
