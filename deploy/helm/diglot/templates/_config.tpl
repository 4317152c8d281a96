{{- /* Values that the manifests derive from the configuration, so that each is set in one place only. */ -}}

{{- /* Returns the port and the scheme of a listener: an address, a mapping with one, or a list of either, of which the first
       is used. Call with (list KEY LISTENER). */ -}}
{{- define "diglot.listener" -}}
{{- $key := first . -}}
{{- $one := last . -}}
{{- if kindIs "slice" $one -}}
{{- if not $one -}}{{- fail (printf "config.%s: at least one address is needed here" $key) -}}{{- end -}}
{{- $one = first $one -}}
{{- end -}}
{{- $tls := false -}}
{{- if kindIs "map" $one -}}
{{- $tls = hasKey $one "tls" -}}
{{- $one = $one.address -}}
{{- end -}}
{{- $port := regexFind ":[0-9]+$" (toString $one) | trimPrefix ":" -}}
{{- if or (not $port) (hasPrefix "unix:" (toString $one)) -}}
{{- fail (printf "config.%s: %v is no address with a port; write one as 0.0.0.0:8787" $key $one) -}}
{{- end -}}
{{- if regexMatch "^(127\\.|localhost|\\[::1\\])" (toString $one) -}}
{{- fail (printf "config.%s: %v is reached from inside the pod alone; write 0.0.0.0:%s" $key $one $port) -}}
{{- end -}}
port: {{ $port }}
scheme: {{ $tls | ternary "https" "http" }}
{{- end -}}

{{- define "diglot.data" -}}
{{- include "diglot.listener" (list "listeners.data" .Values.config.listeners.data) -}}
{{- end -}}

{{- define "diglot.status" -}}
{{- include "diglot.listener" (list "listeners.status" .Values.config.listeners.status) -}}
{{- end -}}

{{- /* Returns a duration of the configuration in whole seconds, rounded up. Call with (list KEY DURATION). */ -}}
{{- define "diglot.seconds" -}}
{{- $text := last . | toString -}}
{{- if not (regexMatch "^[0-9]+(ms|s|m|h)$" $text) -}}
{{- fail (printf "config.%s: %s cannot be read here; write a whole number and a unit (30s, 5m), or set terminationGracePeriodSeconds" (first .) $text) -}}
{{- end -}}
{{- $count := regexFind "^[0-9]+" $text | int64 -}}
{{- $unit := regexFind "[a-z]+$" $text -}}
{{- if eq $unit "ms" -}}{{- div (add $count 999) 1000 -}}
{{- else -}}{{- mul $count (get (dict "s" 1 "m" 60 "h" 3600) $unit) -}}
{{- end -}}
{{- end -}}

{{- /* Returns the seconds that a pod needs to end: the drain, and time to report the end. */ -}}
{{- define "diglot.grace" -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- $variable := contains "${" (printf "%v%v" .Values.config.drain_grace .Values.config.drain_timeout) -}}
{{- if and $variable (not (kindIs "invalid" $given)) -}}
{{- $given | int64 -}}
{{- else -}}
{{- $grace := include "diglot.seconds" (list "drain_grace" .Values.config.drain_grace) -}}
{{- $timeout := include "diglot.seconds" (list "drain_timeout" .Values.config.drain_timeout) -}}
{{- $needed := add $grace $timeout 5 -}}
{{- $chosen := kindIs "invalid" $given | ternary $needed $given | int64 -}}
{{- if lt $chosen $needed -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is too short for drain_grace and drain_timeout; leave it out, or write %d or more" $chosen $needed) -}}
{{- end -}}
{{- $chosen -}}
{{- end -}}
{{- end -}}

{{- /* Returns a digest that changes if a running process cannot load the new configuration: of the keys that
       deploy/lifecycle.md names, or of the whole configuration. */ -}}
{{- define "diglot.restart" -}}
{{- if .Values.restartOnChange -}}
{{- toJson .Values.config | sha256sum | trunc 16 -}}
{{- else -}}
{{- $kept := pick .Values.config "listeners" "run_dir" "trusted_proxies" -}}
{{- $limits := pick (.Values.config.limits | default dict) "header_bytes" "headers" "head_timeout" "idle_timeout" "connections" "connections_per_address" -}}
{{- $store := pick (.Values.config.replay | default dict) "store" -}}
{{- toJson (list $kept $limits $store) | sha256sum | trunc 16 -}}
{{- end -}}
{{- end -}}

{{- /* Converts a quantity of memory to bytes. */ -}}
{{- define "diglot.bytes" -}}
{{- $text := toString . -}}
{{- $factor := get (dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "k" 1000 "M" 1000000 "G" 1000000000) (regexFind "[A-Za-z]*$" $text) -}}
{{- if not (and $factor (regexMatch "^[0-9]+[A-Za-z]*$" $text)) -}}
{{- fail (printf "resources.limits.memory: %s cannot be read here; write a whole number and a unit, as 1Gi" $text) -}}
{{- end -}}
{{- mul (regexFind "^[0-9]+" $text | int64) $factor -}}
{{- end -}}

{{- /* Returns the port of the Service: the chosen one, or the default port of the scheme. */ -}}
{{- define "diglot.servicePort" -}}
{{- $data := include "diglot.data" . | fromYaml -}}
{{- kindIs "invalid" .Values.service.port | ternary (eq $data.scheme "https" | ternary 443 80) .Values.service.port -}}
{{- end -}}

{{- /* Rejects values that would be ignored, or that would fail only in the pod, with a message that says what to write. */ -}}
{{- define "diglot.refusals" -}}
{{- if and .Values.agent (ne .Values.mode "sidecar") -}}
{{- fail (printf "agent: in the mode `%s` no agent is made; write mode: sidecar, or take agent out" .Values.mode) -}}
{{- end -}}
{{- with .Values.agent.ports -}}
{{- $data := include "diglot.data" $ | fromYaml -}}
{{- $status := include "diglot.status" $ | fromYaml -}}
{{- range . -}}
{{- $port := int .containerPort -}}
{{- range $name, $own := dict "data" $data.port "status" $status.port -}}
{{- if eq $port (int $own) -}}
{{- fail (printf "agent.ports: %d is Diglot's own in this pod (config.listeners.%s); let the agent listen on another" $port $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* A file at /run/secrets/NAME/… comes from a Secret in the list, or from a volume that is mounted there. */ -}}
{{- $mounts := list -}}
{{- range .Values.secrets -}}{{- $mounts = append $mounts (printf "/run/secrets/%s/" .) -}}{{- end -}}
{{- range .Values.volumeMounts -}}{{- $mounts = append $mounts (printf "%s/" (.mountPath | toString | trimSuffix "/")) -}}{{- end -}}
{{- range regexFindAll "\"/run/secrets/[a-z0-9][-a-z0-9.]*/[^\"]+\"" (toJson .Values.config) -1 -}}
{{- $file := trimAll "\"" . -}}
{{- $found := false -}}
{{- range $mounts -}}{{- if hasPrefix . (printf "%s/" $file) -}}{{- $found = true -}}{{- end -}}{{- end -}}
{{- if not $found -}}
{{- $name := index (splitList "/" $file) 3 -}}
{{- fail (printf "config: no Secret is mounted where %s would be; write secrets: [%s]" $file $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
