BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-1',9,9,1795986724684918217,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','proved',34,1795986724684924690,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',13,13,1795986724684926792,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795986724684935301,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795986724684937668,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986724765818401,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',21,21,1795986724684943278,'l-1',0,2,'node','test','1',0,'/models/base',NULL,'raw','cpu','fallback','not_resident','',NULL,NULL,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee',NULL,NULL,NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795986724684952115,'l-1',0,2,'[redacted]','test','1',0,'[redacted]','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986724684958454,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795986724746685597,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','mapped','unproven',NULL,NULL,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795986724765821682,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(16,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'67cf96c620214954a73747e45229ff62','daemon.started',1,1795986724684890799,1795986724685719701,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'FF6D5CB772817026A09DD335F940EF30',X'30C58F2C8D1F06F0136D63FDD009727E13277CF267473626001D8171D2088830',X'942A0449EA8F6FCE713036CE0800F2610AEB84DB222552DEF65A6CC4B99B8E37');
INSERT INTO "event" VALUES(2,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'68ec9b0081a54334ae500cf83e465063','fingerprint.recorded',1,1795986724684894024,1795986724685719701,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'434933A41E888360F1622D91EAC0B9FF',X'13A7E66A6216519B7E9807775CF3DC3802DBD09B2F1ECF07B1EB122C8BC7E0CE',X'C0A0D5F1AF8B46905248EA02D674547DA9185AFC40573E5BBF88273775789D3D');
INSERT INTO "event" VALUES(3,'fingerprint/3f10fec20294af230a35eb846e15693b',1,'0b2f233d49ce46cca36d2603ecba7676','fingerprint.recorded',1,1795986724684896850,1795986724685719701,0,'{"fingerprint":"3f10fec20294af230a35eb846e15693b","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'7F7EA43A497B5072368614E851CB9495',X'E9F262CD0FE1CC6E6B1F2E94DCF40CF7F000A8D84E4186854206300283D3A39D',X'539C9F62E300CE68E323EF346047607CE199EF11E322FF0E5AA5F142FF513AF4');
INSERT INTO "event" VALUES(4,'trust/g-1',1,'07bffc3f27794611b0bfa74479402ff2','trust.granted',1,1795986724684899031,1795986724685719701,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'A79B02E017631A16C4048D04991319BA',X'246518F2B226FE5D0834C0F905319A74ABB182F139E0937871A0866AFD6A0A2D',X'6FB635197E0BC689721275B8DD1B10A3B75DF83D6A0903128E7A4306024E16C3');
INSERT INTO "event" VALUES(5,'trust/g-2',1,'e54b4b6f122148c680e3ed19343d13cf','trust.granted',1,1795986724684900748,1795986724685719701,0,'{"grant":{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'E30F9323C630ADCE9115E1B1114A635B',X'E31E44025BB3E734E21C4D09D0125324B84D9A1F3D5D6CA6CD6D8CC97CD3AC01',X'6BB88577F6625CF37483168F5F2F4990EAD82D04414D58AFA23842B363C136E8');
INSERT INTO "event" VALUES(6,'trust/g-2',2,'47defe7a04944f859a8101e331a0ad33','trust.revoked',1,1795986724684902993,1795986724685719701,0,'{"grant":"g-2","operator_uid":0,"reason":""}',X'7572F3F48945650F4D64D8A590D1DB00',X'B3290789E3F14D25A66984C3488E3F0E9C8D053BF08DDF46D817C74DB21A653F',X'E8300BDCC2AAC21517F6714329CB676CABE4C972858A3BA7167CC0967D137FC6');
INSERT INTO "event" VALUES(7,'residency/r-1',1,'3db1a9c96a40417a950738a4b913f291','load.started',1,1795986724684905495,1795986724685719701,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'3206F3624FE11E3806380E4D97023C5F',X'8D0785EA0868D5C2906193525F54F34205B6AD07161CBB5B81BCBB9ABA25A7B5',X'90D941B7FCD00ED17C5CA196169729C19D651E30F6312E995D5F44B9AFD33B42');
INSERT INTO "event" VALUES(8,'residency/r-1',2,'94cf4ca9bf274800879bd3667ebb15c6','load.completed',1,1795986724684915984,1795986724685719701,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'56FAA7E58F465ABA000D29DB4821480E',X'9DD82A6FB13558C44DC4FE070447CD560FD1AA35F281A4B8DAF8719A5D5D6751',X'D4E27A5A09A95627A69799964EBF4A77CBA8456FCB24AAA5D4CC78DBDFEAD42B');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'0d5f83c934c34bd6b5c8733cee183a2a','attach.decided',1,1795986724684918217,1795986724685719701,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'0BF29E370D081563761E2F124E0E0F23',X'6504D6A60D34B3D941B0E28129E72EC0BC145B867C8E8189C375AAE934B69F1E',X'4E5009AB9E525D3C7A038C57172DC7D46687BE5A2AC0AF64B5A27F0E3552F368');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'fadfa9d503e34baf9d10245f230f7063','lease.granted',1,1795986724684920538,1795986724685719701,0,'{"attach":"a-1","residency":"r-1"}',X'FD464A5C18D64AFA74CE924E18F63BA7',X'35735DF5F5A26FE41C494BF9DBF2467335AA2B3332C3DCA0AE6CE4BF9E1437E8',X'4F941BB315FC5E903E592A22625DDD30BF8AD14D5EA1B6ED4765063F7A1A2A98');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'2b891a853a394be0be06cf8fea00ebb7','map.completed',1,1795986724684922503,1795986724685719701,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'76F00624D03177AAFDA9B457178E6D9F',X'A61ED003F445323E19F5444815EA308633418CC74C3AA0CDA419E63659EAC6F0',X'08EB3D3A485DC96A4A8AF5432BAF2813AF27FB6958F0B9C95850ED955D220A19');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'137b7212e9c949509bf77edad0eeb17c','lease.ended',1,1795986724684924690,1795986724685719701,0,'{"attach":"a-1","how":"closed","checked":""}',X'468392F5EF99C438D1C79D4C66873F5E',X'5F81B50D831A0C3966858EAA6C479B74C73709DE92F23FD61862102B94830305',X'A092AAB2182286BFF8D80E58F8A87235E857469A14FD9B604C248A4356E8F295');
INSERT INTO "event" VALUES(13,'attach/a-2',1,'a2f39282367f4e27b89479c7e10e7c6d','attach.decided',1,1795986724684926792,1795986724685719701,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'DA8F1B90B30694FA4A561B8B2392B745',X'60C8ACA01BD2234E400C42F81998ED3CA35E9A2ABD12DBAD586246CA09AD7041',X'28A13796765CCE32189EEB9E57BFFE1F66D57CD034601C3EC2C4B43AE71A75D6');
INSERT INTO "event" VALUES(14,'attach/a-2',2,'aa3f728babc644b39473bc9c91d84f19','lease.granted',1,1795986724684928837,1795986724685719701,0,'{"attach":"a-2","residency":"r-1"}',X'52A6CD3C3660F14CAA17F2F72DCCC297',X'7110FA94690403B05D6548A01AD0CBE16E15D1F7029DA8D2AC06134D2B905AA7',X'75B262F45CD9A5CB260017E0CDD76BBD5D345EEB87DC96E3976C19F1C70EBA4E');
INSERT INTO "event" VALUES(15,'attach/a-2',3,'d6ed891de8ca433388e7b8e176aae3c8','map.completed',1,1795986724684930735,1795986724685719701,0,'{"attach":"a-2","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'838A71CA2166B3E3F0EC0F086BB47282',X'E86111FB193527D1D2BF5BFACB33E05AFE384A49E679BAF333E05672E5EEE576',X'83A1FF38A5BDA168D1B021DEB48F7765AEF4C040EC53A6421C63BB683DC517AF');
INSERT INTO "event" VALUES(16,'attach/a-2',4,'c443039453e24097b8523505596736eb','verify.failed',1,1795986724684933170,1795986724685719701,0,'{"subject":"hit","attach":"a-2","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'311AC519A1419CE65E0842F49B4E002B',X'F8F594FE4A31FF74D9F34CFF29BD7F844155C115ABAD1A918E31715B71B78365',X'A1AAE1D2329083BF057D3141058AAC5985A1C0AEA2874203570C4335AF215AE3');
INSERT INTO "event" VALUES(17,'attach/a-2',5,'43dedc5b093d43059d08adec5a457142','lease.ended',1,1795986724684935301,1795986724685719701,0,'{"attach":"a-2","how":"closed","checked":""}',X'AC0808072EF1D4071BA18645E2AB816A',X'23B1B0BC3B2E67721875EE87E7004A24BE64A507341CCF7331C6830A82FD576D',X'317DB0550CA5303BC9ED5501AC50663194B474AB292148A9025AE1A658A69450');
INSERT INTO "event" VALUES(18,'attach/a-3',1,'3a9ee041706244e081970263553884c1','attach.decided',1,1795986724684937668,1795986724685719701,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'BCC3D93DE7E81673472C240D1B264D75',X'FFB92AB22B30D23A669FCE565A140BA7A97736E505044BEBC5719C546D06C754',X'49F761B3C2BB66BF3FDED8E96D08236F39B495D3CA69F17A7813D501D42C81CF');
INSERT INTO "event" VALUES(19,'attach/a-3',2,'8e5d81d25c86426e8b2409ac6f7936fa','lease.granted',1,1795986724684939467,1795986724685719701,0,'{"attach":"a-3","residency":"r-1"}',X'6FCDBFF2AF7B58B685C4872B3F554A39',X'2D256A75EA991C83BCC1B442EECD281EECF1C4C1AEDB0882BB4BE6CE7C974720',X'5B55D47319967582940CE6E25A431E388260F62F356A5DAF6CD4F7C787A8FA0D');
INSERT INTO "event" VALUES(20,'attach/a-3',3,'c7dbf9dda43940b5a7c106be6167d766','map.completed',1,1795986724684941149,1795986724685719701,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'D321A353F0819CD67E52C77F229A6B9D',X'72A47A84D5DF17D09758C73171A1684FF1039A607CD055D8DD518F8B226A3A0E',X'E64C3D1F7136A16C226AC880944EC3DC48DBA36256472EDD07C35F64AD9721DA');
INSERT INTO "event" VALUES(21,'attach/a-4',1,'340d8f118ba944b79de3a666f20710d3','attach.decided',1,1795986724684943278,1795986724685719701,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":null,"residency":null,"kind":"raw","device":"cpu","outcome":"fallback","reason":"not_resident","detail":"","tier":null,"mode":null,"evidence":[],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'83A3D40DA39C62ADFC5FC2598350EAD4',X'27070E53D295D8B722DBA947F918E28DDE49421BE6103CC2E9DD870B7975A88A',X'4C5E456F00A6D3009B40C3F2B00AF0FE6177A4E54FBAC73918E079182AAED9E7');
INSERT INTO "event" VALUES(22,'attach/a-4',2,'d283fdcdd9ef4a21a78f664f1072535d','fallback.completed',1,1795986724684945641,1795986724685719701,0,'{"attach":"a-4","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'95E972E7EDA56244CDB499D25503E405',X'DC61038412BADEF2271BA47597C5A2AF4FB37441F91426146B663F3113BC9942',X'A4E310436D27BD841A211D26BA816CB91713B6FBCA80DA4C84737D2B6EA480BB');
INSERT INTO "event" VALUES(23,'residency/r-2',1,'4c2487b368d24b1b8f494179a3bf53da','load.started',1,1795986724684947618,1795986724685719701,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'F8AEDDE4A805EB86E86CDDEF9469FB60',X'2FE5DABB70DC6F43ACD00791136486D1383BA8F158E1CCE91735D9A457950100',X'E71A4E4F65A834AADF0044CC3E466310024B742E2D95AC3FE067C7C19C0B1F9B');
INSERT INTO "event" VALUES(24,'residency/r-2',2,'f22f2e5b54fd41d2bba997825ff2988c','load.completed',1,1795986724684950001,1795986724685719701,0,'{"residency":"r-2","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":[],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'8CFE2B33AE68A23538EE2D6FDBC1083E',X'C7AB04A79CC225FF6BA045C22515125A768EC35789CF74A9D45EE3A65A09FEF0',X'ABF1235C89877A4A8DD06DE26E9785D4993A1FE6E1E8E9881FE4098DB58EE9F0');
INSERT INTO "event" VALUES(25,'attach/a-5',1,'e144b3a737f04674ab3d1686f37e12db','attach.decided',1,1795986724684952115,1795986724685719701,0,NULL,NULL,X'7A604CBF317416A0F4BEA791A465DC4B1AF4AFD3549CB6FA0AD75603EC7B1908',X'916BD936133691FF0BF284EC6BE873F8249C1FB228BA7C1C1ACA907EF0EF296C');
INSERT INTO "event" VALUES(26,'attach/a-5',2,'152e42be4536417187903bc695db77be','lease.granted',1,1795986724684954897,1795986724685719701,0,NULL,NULL,X'B988FBC4E86E338F972ACCBEEAB30582DB6B76EEB9399FFB697891327D62AA5E',X'F6EC6E77BB0796C1597A1C2F8D8739C685E543CA4E230395C38FDFF9699884B0');
INSERT INTO "event" VALUES(27,'attach/a-5',3,'4b8ac9c7b8cf48218c02c9753d017480','map.completed',1,1795986724684956671,1795986724685719701,0,'{"attach":"a-5","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'6D693F99F60FAAF636D3C48EDFD39AA2',X'C2E149BB67B7D0B23466F07BF5F997F476E8188166317D3709E7770E954C9F89',X'E98931115FED927EAE1388BD0CF2DA65532EE60E75AF002E999B7FC5BA651F6F');
INSERT INTO "event" VALUES(28,'attach/a-5',4,'021a3b3eecb34d2ca9817e820922bece','lease.ended',1,1795986724684958454,1795986724685719701,0,'{"attach":"a-5","how":"closed","checked":""}',X'9977231E640CA6DC76BA751C89BB2152',X'FA35F4792D35B5894F13947D95D60E4282ABDA4714B0212D11F7DCF416FDE207',X'6DE9BE83570951F2B23B8D9AB3B1E2A4444BC7656CBA3C1ECDB5DCB3C146CE9A');
INSERT INTO "event" VALUES(29,'residency/r-2',3,'0154e2defb2c46c5b3680ef5c68bcaef','release.requested',1,1795986724684968318,1795986724685719701,0,'{"residency":"r-2","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'BFE239C447BDDA9E8255E093F4420EFF',X'87C00C83CA05C531D113549F055F9A590443B77BD6AFB605E958CC422A704B87',X'82F1C1F6730BAF93CB8AA6CC970A00F6647E84944AAEA6B86260A2178F0A4FE8');
INSERT INTO "event" VALUES(30,'residency/r-2',4,'082e56df80d64048b32ff266029300a4','release.completed',1,1795986724684971158,1795986724685719701,0,'{"residency":"r-2","bytes":1000,"checked":""}',X'7110032D68A7A536CB8F1AAC2C5ABF91',X'CFD3DEAED5FB78B090BE899C1138711D34E9858D381F045F97CE0DA59167D905',X'03EE67F2D48740AF8922DABCC585C7E339BD4C36847E8E35ACCF52950623A27E');
INSERT INTO "event" VALUES(31,'ledger',1,'62161aae697242128d63fde797a40af5','peer.refused',1,1795986724684973195,1795986724685719701,0,NULL,NULL,X'061426AA11936D17CEE0A1064623C2E7B58508322553617E789B87C7BEE2BEF2',X'8F012655AC20F9D7718D6F7BE4D7FF44D81F9802B93BF09E40DD1F8886786947');
INSERT INTO "event" VALUES(32,'ledger',2,'f6e3bdd774da49c8ad16504780b806aa','segment.closed',1,1795986724712416899,1795986724712506439,0,'{"size":31,"root":"9c016611c1d3d9ba621e11bd784bfc2ada51ca1d8e9afd5f90577a4c42756e4d","uid":0}',X'A3D34400115F622F16C56A6EE5E5F58C',X'DAA25195F39BA7D47A334A86DA9F805A2A398A45AB761E042A90A42CB7E1431E',X'DA5EB99B157FBBAE6BD36C153B3C4BCB844706B68EB5DA42866BE093E45F5990');
INSERT INTO "event" VALUES(33,'ledger',3,'1476f2411f554e20bd7a2260f0aa1a95','segment.opened',1,1795986724712943618,1795986724712986318,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":32,"root":"01a890e0023109086a901a547144f7bc245eeaab863c727d0cc5851e29f6f832","frontier":["01a890e0023109086a901a547144f7bc245eeaab863c727d0cc5851e29f6f832"],"chain":"da5eb99b157fbbae6bd36c153b3c4bcb844706b68eb5da42866be093e45f5990","origin":"6892542079afeacbb2d106792cd5d2e4"}',X'7B9B1C91F3DED4DBBD87E8DF9CA986D0',X'4BF9DEAA0476F33866ECF53B471F407E4D3FFB10B2CBFE9491D3C774F159BDCB',X'76F0274E81B85B1B16F807371BB2B1080AFA1576434A6488BE83BFC86CC11C9A');
INSERT INTO "event" VALUES(34,'attach/a-1',5,'234eb989db054c32b0e3a3a8b69a6856','verify.passed',1,1795986724746681792,1795986724747035059,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'882DE43B35EE27E9DD91F91122616C8D',X'7584361EF7517FB41EB05E3A7C270FE161B405CF6DFB742251758BFE5328525E',X'197AF4477712A507992A94348DC4CAA112DB692240A750707CB6CCF769209D07');
INSERT INTO "event" VALUES(35,'attach/a-6',1,'19cf5e3244304e14872afed262be5cf5','attach.decided',1,1795986724746685597,1795986724747035059,0,'{"attach":"a-6","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'52F79566EFFB94801F4060B84362C237',X'FC06BE03C5544A50BB3FE852337298272ECFF5CBCEB9484122E82358F0AD630D',X'D6AA3650A7338E7F7C6EE8231002192FBBC2303E3665ED5C3F49EEB0CF6FCC8B');
INSERT INTO "event" VALUES(36,'attach/a-6',2,'eb1ee4d03a6c423e9759f36f7d9e5a24','lease.granted',1,1795986724746688014,1795986724747035059,0,'{"attach":"a-6","residency":"r-1"}',X'9E253148D89532F2373D20712650D37A',X'95FD937698AE332E802AAEFEDD99AA17F0FC515F993F4CF119B6F89F5056D08D',X'CC1B760B193837F0298B96DEE04A6036A5EFF6030D13D7A4EAB1750658E2CB64');
INSERT INTO "event" VALUES(37,'attach/a-6',3,'bf6e3a0b895b456ab5b9f891b53753ea','map.completed',1,1795986724746690649,1795986724747035059,0,'{"attach":"a-6","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'C61F4D5C58D644D57E87277460A97E23',X'2C69FE65B52535C11F43B026E2788B17CE94F70481B26E9E56BD01D0C179FA85',X'400516787DE21450A048E0D8BBB5A4BF8976B41C75B11108AAAAD3768E79A1B9');
INSERT INTO "event" VALUES(38,'ledger',4,'8677774c1f854b79b2754ffbd0ba5da5','segment.closed',1,1795986724760683915,1795986724760752287,0,'{"size":37,"root":"209fd0e7280191742f29e92f06f5defe5effa3a4d91928afc8e57db9b41a2292","uid":0}',X'CF9D8646C8A116B193AAFCA8DFC8EBEB',X'3587B880691AFCA6D66887D6ECEC246BBEA298924ACA382B40CBE469FB0A3AD4',X'C1971D4B6D2C192E64BE7A637C3852AA35738C80CF1252FDB4040910CE87934A');
INSERT INTO "event" VALUES(39,'ledger',5,'79489f6045ca4a63aa1dfb23d272cb2b','segment.opened',1,1795986724761024334,1795986724761074316,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"63c18f8383a3246ab918fd76d5639fa5a4810c5c68168dcda486357ad1495868","frontier":["01a890e0023109086a901a547144f7bc245eeaab863c727d0cc5851e29f6f832","9f8e5226f5b28ccff8636e2666f7e1eaf28570a668cf02d5cce04432e430d3c8","7c80d24c148c93242472767c7458eeaa17240edc04164e35929b02b1d771b63e"],"chain":"c1971d4b6d2c192e64be7a637c3852aa35738c80cf1252fdb4040910ce87934a","origin":"6892542079afeacbb2d106792cd5d2e4"}',X'CF6CC3BAF92D65E85EDB2C88CE460C89',X'84D1033695D95AEA4C790BF4472DD92D73CF18DC7337DED0AE961C82D2B27B37',X'5B12D84F441E81D96F256BC220681C4B90C11D254C4511EEC9FE52389ABB463F');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'c8661377cfc0426588f41b45b438ec30','lease.ended',1,1795986724765818401,1795986724770182125,0,'{"attach":"a-3","how":"closed","checked":""}',X'807F9C29426261073628CF6D546D74E6',X'F8A77E627B0A1BA6D32C9CAE13593DF27690CCB31627FB2D3600B031E7830DAA',X'83E56887126F68379153ABA3B8531E8592606E3B240593D504FC40B1712A86A9');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'87ca3ebfccc643e1a35b17b36c1471ee','attach.decided',1,1795986724765821682,1795986724770182125,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'C838E027CA3654CC6DFF876AD2924526',X'EFF65F86F5850035DFAB2D8F6ED42274A965228AF0436566DBAFAC862351BB84',X'2650D7C2E3EBE7B5E80E436B609E9B8C1B0F2DD4DDF41061EA8574F45F286667');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'720ef60fadfd427e87eab9fd3c0c1625','lease.granted',1,1795986724765824036,1795986724770182125,0,'{"attach":"a-7","residency":"r-1"}',X'D7DFD7F89983BABB19B7D49FCA159621',X'5FA64C56491BD50B9EDB1A9D0FF7393AC28AEB74FBF8DFA99905520433A611FF',X'ED9E30094D6BECCC795542ADC5D9F23926B06973FDD693A22E9700D3969605E1');
INSERT INTO "event" VALUES(43,'ledger',6,'d3d22806460b43e2b6ca5b76de9f00ee','payload.redacted',1,1795986724793978574,1795986724818651310,0,'{"target_seq":25,"why":"a path with a name","uid":0,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"},"body_schema":1}',X'885BC91CA3100DD6A9EF16A39115721B',X'0F3CDF66640E4C6DCC48BDF99AAC9943AB6226F686D0F18F53CB6FB25518D8D9',X'86AB8EF4068DDB83287575DD82C5928BF83EB16F7610AA8C2F4F714CF6E55309');
INSERT INTO "event" VALUES(44,'ledger',7,'ab682af96a9848ff97363e6bb4864d56','payload.redacted',1,1795986724793983381,1795986724818651310,0,'{"target_seq":26,"why":"a path with a name","uid":0,"body":{"attach":"a-5","residency":"r-2"},"body_schema":1}',X'5FFC71782868177B1D8BDF64DBC03BC1',X'1FBFF3BABD2BD27CA21E7E8A7B5787F0307AB56ABEF08B42D08611ED1CC37D12',X'54B6F74C3AB1DD98E532C6389A3F828D18A0AE65F9572F98F3E67DB4FEF8F2C6');
INSERT INTO "event" VALUES(45,'ledger',8,'c796eadfdb2547fea6e7690826f697a2','payload.redacted',1,1795986724793985155,1795986724818651310,0,'{"target_seq":31,"why":"a path with a name","uid":0,"body":{"peer":{"pid":5,"uid":1000},"why":"[redacted]"},"body_schema":1}',X'F24B2CBD3618DA0EE36D354F1CCB4752',X'F5DC48A31EA2052A3831AAB7CE652452CC3DF7C79D89B6839B3F96FD12914A32',X'B4BC82B1B08D4A57E1B9380D4AD05B176935C253BE959D93DE8893B051D3C351');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986724685719701,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('3f10fec20294af230a35eb846e15693b',3,'content','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','/models/base','92dc691468bb800f4aebd29ffd0fbf429b09564131316b2d76f3cea9ed3f7a1d','/models/base','d-1',1795986724685719701,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'running',1795986724684890799,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795986724636320940');
INSERT INTO "meta" VALUES('origin','6892542079afeacbb2d106792cd5d2e4');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795986724684915984,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795986724684950001,1795986724684971158,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',2,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',8,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-4',2,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-5',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-6',3,'{"state":"mapped","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-7',2,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unproven"}');
INSERT INTO "stream" VALUES('daemon/d-1',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/3f10fec20294af230a35eb846e15693b',1,'');
INSERT INTO "stream" VALUES('ledger',8,'');
INSERT INTO "stream" VALUES('residency/r-1',2,'resident');
INSERT INTO "stream" VALUES('residency/r-2',4,'released');
INSERT INTO "stream" VALUES('trust/g-1',1,'active');
INSERT INTO "stream" VALUES('trust/g-2',2,'revoked');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',4,'checkpoint','active','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
INSERT INTO "trust" VALUES('g-2',5,'checkpoint','revoked','{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',6);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
COMMIT;
